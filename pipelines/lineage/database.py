"""Which database a workspace's record is in, and how it is reached.

    database = Database.of(workspace.root)   # HEADRACE_METADATA, else what the workspace noted, else its file
    database.config()                        # ML Metadata's connection

A password is looked up when somebody connects, and is kept and printed nowhere.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, Self
from urllib.parse import parse_qs, unquote, urlsplit

from pipelines.errors import ConfigError, WorkspaceError
from pipelines.lineage.locking import exclusive

VARIABLE = "HEADRACE_METADATA"
PASSWORD_VARIABLE = "HEADRACE_METADATA_PASSWORD"

_KINDS = {"mysql": "mysql", "mariadb": "mysql", "postgresql": "postgresql", "postgres": "postgresql"}
_PORTS = {"mysql": 3306, "postgresql": 5432}
_NOTE = "metadata.json"
EXPECTED = (
    "mysql://USER@HOST:PORT/DATABASE or postgresql://USER@HOST:PORT/DATABASE, with ?socket=PATH for a socket"
)


class Settings(Protocol):
    """What an experiment's `metadata` section says."""

    @property
    def url(self) -> str: ...
    @property
    def password_env(self) -> str: ...
    @property
    def password_file(self) -> str | None: ...


@dataclass(frozen=True)
class Server:
    """A URL in its parts.

    Attributes:
        kind: `mysql` (MariaDB too) or `postgresql`.
        socket: of MySQL its file, of PostgreSQL the folder that holds it; or empty.
        password: empty where the URL holds none.
    """

    kind: str
    user: str
    host: str
    port: int
    database: str
    socket: str = ""
    password: str = ""

    @classmethod
    def of(cls, url: str) -> Self:
        """Reads a URL.

        Raises:
            ValueError: it is none of a database server. The text does not repeat it: it may hold a password.
        """
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise ValueError(f"the port is no number; expected {EXPECTED}") from error
        kind = _KINDS.get(parts.scheme)
        options = parse_qs(parts.query)
        socket = options.pop("socket", [""])[0]
        database = unquote(parts.path.strip("/"))
        if kind is None or options or not database or not parts.username or not (parts.hostname or socket):
            raise ValueError(f"a metadata URL should be {EXPECTED}")
        return cls(
            kind,
            unquote(parts.username),
            parts.hostname or "",
            port or _PORTS[kind],
            database,
            socket,
            unquote(parts.password or ""),
        )

    @property
    def url(self) -> str:
        """Without the password."""
        place = f"{self.user}@{self.host}:{self.port}" if self.host else f"{self.user}@"
        return f"{self.kind}://{place}/{self.database}" + (f"?socket={self.socket}" if self.socket else "")


@dataclass(frozen=True)
class Database:
    """A workspace's record: a SQLite file, or a database on a server.

    Attributes:
        path: the SQLite file; where `url` is given, only its lock is used.
        url: of a server, without a password; empty for the file.
        password_env: environment variable that holds the password.
        password_file: file that holds it, and comes first.
    """

    path: Path
    url: str = ""
    password_env: str = PASSWORD_VARIABLE
    password_file: str | None = None

    @classmethod
    def of(cls, root: Path) -> Self:
        """What `HEADRACE_METADATA` says, else what a workspace noted, else its file.

        Raises:
            ConfigError: the variable is not understood.
            WorkspaceError: the note cannot be read.
        """
        path = root / "metadata.db"
        noted = _noted(root)
        given = os.environ.get(VARIABLE)
        if not given:
            return cls(path, **noted)
        try:
            url = Server.of(given).url
        except ValueError as error:
            raise ConfigError(f"{VARIABLE} is not understood: {error}", place=VARIABLE) from error
        return cls(path, **{**noted, "url": url})

    @property
    def is_file(self) -> bool:
        return not self.url

    @property
    def name(self) -> str:
        """The file, or the server's URL without a password."""
        return self.url or str(self.path)

    def is_there(self) -> bool:
        """Whether there can be a record: the file exists, or a server is named."""
        return bool(self.url) or self.path.exists()

    def exclusive(self) -> contextlib.AbstractContextManager[None]:
        """Keeps the workspace's other processes out for a while.

        Servers stand several writers, but ML Metadata makes types in several steps.
        """
        return exclusive(self.path)

    def password(self) -> str:
        """The password; empty where none is given.

        Raises:
            WorkspaceError: the file that should hold it cannot be read.
        """
        if self.password_file:
            try:
                return Path(self.password_file).expanduser().read_text(encoding="utf-8").rstrip("\r\n")
            except OSError as error:
                raise WorkspaceError(
                    f"The metadata password cannot be read: {error.strerror}",
                    place=str(self.password_file),
                    remedy="Name a readable file as metadata.password_file.",
                ) from error
        given = os.environ.get(VARIABLE)
        server = Server.of(given) if given else None
        if server and server.password and server.url == self.url:
            return server.password
        return os.environ.get(self.password_env, "")

    def config(self, *, password: bool = True) -> Any:
        """ML Metadata's ConnectionConfig; without the password, it may be printed and stored."""
        from ml_metadata.proto import metadata_store_pb2 as pb

        config = pb.ConnectionConfig()
        if self.is_file:
            config.sqlite.filename_uri = str(self.path)
            config.sqlite.connection_mode = pb.SqliteMetadataSourceConfig.READWRITE_OPENCREATE
            return config
        server = Server.of(self.url)
        secret = self.password() if password else ""
        if server.kind == "mysql":
            config.mysql.CopyFrom(_mysql(pb, server, secret))
        else:
            config.postgresql.CopyFrom(_postgresql(pb, server, secret))
        return config


def _mysql(pb: Any, server: Server, password: str) -> Any:
    config = pb.MySQLDatabaseConfig(
        user=server.user, database=server.database, password=password, skip_db_creation=True
    )
    if server.socket:
        config.socket = server.socket
    else:
        # The client library takes the name localhost for a socket at its own default place.
        config.host = "127.0.0.1" if server.host == "localhost" else server.host
        config.port = server.port
    return config


def _postgresql(pb: Any, server: Server, password: str) -> Any:
    return pb.PostgreSQLDatabaseConfig(
        host=_libpq(server.socket or server.host),
        port=str(server.port),
        user=_libpq(server.user),
        dbname=_libpq(server.database),
        password=_libpq(password) if password else "",
        skip_db_creation=True,
    )


def _libpq(value: str) -> str:
    """A value as libpq reads it: ML Metadata puts `name=value` together as they come."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def settle(root: Path, settings: Settings | None) -> Database:
    """The database of a workspace in which a run begins, noted there for all later commands.

    Args:
        root: the workspace's.
        settings: the experiment's, if it names a server; the environment comes first.

    Raises:
        ConfigError: `HEADRACE_METADATA` is not understood.
        WorkspaceError: the workspace's history is elsewhere.
    """
    database = Database.of(root)
    if settings is not None and not os.environ.get(VARIABLE):
        url = Server.of(settings.url).url
        database = Database(database.path, url, settings.password_env, settings.password_file)
    elif settings is not None:
        database = replace(database, password_env=settings.password_env, password_file=settings.password_file)
    if database.is_file:
        return database
    before = str(_noted(root).get("url") or (database.path if database.path.exists() else ""))
    if before not in ("", database.url):
        raise WorkspaceError(
            f"The history of this workspace is in {before}, not in {database.url}",
            place=str(root),
            remedy="Name a new workspace with --workspace, or leave the metadata setting out.",
        )
    note = {"url": database.url, "password_env": database.password_env}
    note.update({"password_file": database.password_file} if database.password_file else {})
    (root / _NOTE).write_text(json.dumps(note, indent=1) + "\n", encoding="utf-8")
    return database


def _noted(root: Path) -> dict[str, Any]:
    path = root / _NOTE
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise WorkspaceError(
            f"What the workspace noted of its metadata cannot be read: {error}",
            place=str(path),
            remedy=f"Remove it, and set {VARIABLE} to the server's address.",
        ) from error


@contextlib.contextmanager
def connected(database: Database) -> Iterator[Any]:
    """MLMD's store of a database.

    Raises:
        WorkspaceError: it cannot be opened; the text holds no password.
    """
    try:
        store = open_store(database)
    except WorkspaceError:
        raise
    except Exception as error:
        raise _not_open(database, error) from error
    try:
        yield store
    finally:
        del store


def open_store(database: Database) -> Any:
    """MLMD's MetadataStore, as it raises errors of its own."""
    from ml_metadata.metadata_store import metadata_store

    config = database.config()
    if config.WhichOneof("config") != "postgresql":
        return metadata_store.MetadataStore(config)
    from pipelines.lineage.postgresql import BackslashStore

    return BackslashStore(config)


def _not_open(database: Database, error: Exception) -> WorkspaceError:
    if database.is_file:
        remedy = "Restore it from a backup, or move it away to begin a new history (artifacts stay)."
    else:
        remedy = (
            f"See that the server runs and the database exists, and that {database.password_env} or "
            "metadata.password_file has the password."
        )
    # MLMD adds a stack trace or the statement that failed after the first line.
    text = str(error).strip().splitlines()
    return WorkspaceError(
        f"The metadata store cannot be opened: {text[0] if text else type(error).__name__}",
        place=database.name,
        remedy=remedy,
    )
