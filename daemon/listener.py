"""The listening socket and the HTTP server on it."""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp

from daemon.config import ServerConfig
from daemon.errors import ConfigError

_KEEP_ALIVE_S = 75
_DRAIN_S = 15


def bind(config: ServerConfig) -> socket.socket:
    """Take the port; nothing is answered before the server runs on it.

    Raises:
        ConfigError: the port is in use, needs more rights, or the address is not this machine's.
    """
    where = f"{config.host}:{config.port}"
    try:
        family = socket.getaddrinfo(config.host, config.port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise ConfigError(f"Cannot listen on {where}: {error.strerror}.", "Set server.host to an address of this machine.") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((config.host, config.port))
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            hint = "Stop what listens there, or choose another: --port N, or server.port in the configuration."
            raise ConfigError(f"The port {config.port} on {config.host} is in use.", hint) from error
        raise ConfigError(f"Cannot listen on {where}: {error.strerror}.", "Choose another with server.host and server.port.") from error
    listener.set_inheritable(False)
    return listener


class Server(uvicorn.Server):
    """uvicorn, but signals are ours: uvicorn would let them end the process before the store is closed."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def make_server(app: ASGIApp) -> Server:
    return Server(
        uvicorn.Config(
            app,
            loop="uvloop",
            http="httptools",
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=_DRAIN_S,
        )
    )
