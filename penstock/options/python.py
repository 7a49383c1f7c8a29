"""Options of Python in tasks, and of logging."""

from __future__ import annotations

from penstock.dependencies.python_dependencies import LOG_LEVELS
from penstock.logs.lines import FORMATS as LOG_FORMATS
from penstock.options.config_options import ConfigOptions
from penstock.options.registry import describe

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
    "Format of log lines: text, or json with one object per line. Both include the job, the vertex and the subtask.",
)
LOG_COLLECT = describe(
    ConfigOptions.key("penstock.log.collect").boolean_type().default_value(True),
    "Whether tasks send their logs and printed output to the JobManager, for `penstock logs`, the REST API and the web page.",
)
LOG_DIR = describe(
    ConfigOptions.key("env.log.dir").string_type().no_default_value(),
    "Directory to which the JobManager writes its log and those of all TaskManagers. Default: only the last lines are kept, in memory.",
)
PYTHON_FILES = describe(
    ConfigOptions.key("python.files").string_type().default_value(""),
    "Comma-separated Python files, archives and directories that tasks import.",
)
PYTHON_REQUIREMENTS = describe(
    ConfigOptions.key("python.requirements").string_type().default_value(""),
    "Requirements file of the tasks' packages; after a '#', a directory of packages to install them from.",
)
PYTHON_ARCHIVES = describe(
    ConfigOptions.key("python.archives").string_type().default_value(""),
    "Comma-separated archives that are extracted into the working directory of tasks; after a '#', the target directory of each.",
)
PYTHON_EXECUTABLE = describe(
    ConfigOptions.key("python.executable").string_type().no_default_value(),
    "Python interpreter of tasks: a path or command on their machines, or a path inside an archive. Default: that of the program.",
)
PYTHON_PATH = describe(
    ConfigOptions.key("python.pythonpath").string_type().default_value(""),
    "Colon-separated directories on the machines of tasks that are added to their import path.",
)
PYTHON_ENVIRONMENTS_DIR = describe(
    ConfigOptions.key("penstock.python.environments-dir").string_type().no_default_value(),
    "Directory on the machines of tasks for environments made from requirements and archives. Default: the user's cache.",
)
