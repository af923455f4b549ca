"""All routes that are not inference; one file a resource."""

from __future__ import annotations

from starlette.routing import Route

from daemon.api.engine import EngineRoutes
from daemon.api.evaluation import EvaluationRoutes
from daemon.api.events import EventRoutes
from daemon.api.export import ExportRoutes
from daemon.api.forget import ForgetRoutes
from daemon.api.gc import CollectRoutes
from daemon.api.harness import HarnessRoutes
from daemon.api.harness_changes import HarnessChangeRoutes
from daemon.api.harness_edit import HarnessEditRoutes
from daemon.api.harness_install import HarnessInstallRoutes
from daemon.api.harness_proposals import HarnessProposalRoutes
from daemon.api.imports import ImportRoutes
from daemon.api.metrics import MetricRoutes
from daemon.api.models import ModelRoutes
from daemon.api.openapi import OpenAPIRoutes
from daemon.api.records import RecordRoutes
from daemon.api.release_moves import ReleaseMoveRoutes
from daemon.api.releases import ReleaseRoutes
from daemon.api.report import ReportRoutes
from daemon.api.runs import RunRoutes
from daemon.api.scenarios import ScenarioRoutes
from daemon.api.sessions import SessionRoutes
from daemon.api.status import StatusRoutes
from daemon.api.train import TrainRoutes
from daemon.services import Services


def all_routes(services: Services) -> list[Route]:
    return [
        *StatusRoutes(services).routes(),
        *EngineRoutes(services).routes(),
        *EventRoutes(services).routes(),
        *MetricRoutes(services).routes(),
        *OpenAPIRoutes(services).routes(),
        *ModelRoutes(services).routes(),
        *ReportRoutes(services).routes(),
        *RecordRoutes(services).routes(),
        *ImportRoutes(services).routes(),
        *ExportRoutes(services).routes(),
        *TrainRoutes(services).routes(),
        *SessionRoutes(services).routes(),
        *ForgetRoutes(services).routes(),
        *ScenarioRoutes(services).routes(),
        *ReleaseRoutes(services).routes(),
        *ReleaseMoveRoutes(services).routes(),
        *CollectRoutes(services).routes(),
        *RunRoutes(services).routes(),
        *EvaluationRoutes(services).routes(),
        *HarnessRoutes(services).routes(),
        *HarnessInstallRoutes(services).routes(),
        *HarnessEditRoutes(services).routes(),
        *HarnessChangeRoutes(services).routes(),
        *HarnessProposalRoutes(services).routes(),
    ]
