"""Options of Python in tasks, and of what it logs."""

from __future__ import annotations

from penstock.common.config_options import ConfigOptions
from penstock.common.logs.lines import FORMATS as LOG_FORMATS
from penstock.common.options.registry import describe
from penstock.common.python_dependencies import LOG_LEVELS

PYTHON_LOG_LEVEL = describe(
    ConfigOptions.key("python.logging.default.level").enum_type(LOG_LEVELS).no_default_value(),
    "Level of all loggers in tasks.",
)
PYTHON_LOG_OVERRIDES = describe(
    ConfigOptions.key("python.logging.level.overrides").map_type().default_value({}),
    "Levels of single loggers in tasks, by their names: 'my.module:DEBUG'.",
)
LOG_FORMAT = describe(
    ConfigOptions.key("penstock.log.format").enum_type(LOG_FORMATS).default_value("text"),
    "How log lines are written: text, or json, one object a line. Both say the job, the vertex and the subtask.",
)
LOG_COLLECT = describe(
    ConfigOptions.key("penstock.log.collect").boolean_type().default_value(True),
    "Whether tasks send what they log and print to the JobManager, which shows it: `penstock logs`, the REST API, the page.",
)
LOG_DIR = describe(
    ConfigOptions.key("env.log.dir").string_type().no_default_value(),
    "Directory that the JobManager writes its log to and those of all taskmanagers. Without it: only the last lines are kept.",
)
PYTHON_FILES = describe(
    ConfigOptions.key("python.files").string_type().default_value(""),
    "Python files, archives and folders that tasks import, separated by commas.",
)
PYTHON_REQUIREMENTS = describe(
    ConfigOptions.key("python.requirements").string_type().default_value(""),
    "Requirements file whose packages tasks run with; after a '#', a folder of packages to install them from.",
)
PYTHON_ARCHIVES = describe(
    ConfigOptions.key("python.archives").string_type().default_value(""),
    "Archives that are unpacked into the working directory of tasks, separated by commas; after a '#', the folder of each.",
)
PYTHON_EXECUTABLE = describe(
    ConfigOptions.key("python.executable").string_type().no_default_value(),
    "Interpreter of tasks: a path or command where they run, or a path into an archive. Without it: that of the program.",
)
PYTHON_PATH = describe(
    ConfigOptions.key("python.pythonpath").string_type().default_value(""),
    "Folders on the machines of tasks that they import from, separated by colons.",
)
PYTHON_ENVIRONMENTS_DIR = describe(
    ConfigOptions.key("penstock.python.environments-dir").string_type().no_default_value(),
    "Folder, where tasks run, of the environments that are made for requirements and archives. Without it: a cache of the user.",
)
