"""One verb a file: `commands/<verb>.py` holds a function of the verb's name (see `reef_cli.verbs`)."""
