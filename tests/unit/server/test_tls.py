"""Certificates are swapped under a listening server: every new handshake gets the newest, no connection is lost."""

import asyncio
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from certs import store
from certs.authority import make_authority, sign_leaf
from certs.bundle import encode_serving
from certs.pair import Pair
from webhook.server.tls import ServingCertificate, UnusablePairError

NAME = "guard.ns.svc"
NOW = datetime.now(UTC)
AUTHORITY = make_authority(NOW)
CA = encode_serving(AUTHORITY)["tls.crt"].decode()

Address = tuple[str, int]

# A socket sends the alert before it closes; asyncio closes only.
REFUSED = "ALERT_PROTOCOL_VERSION|ALERT_HANDSHAKE_FAILURE|UNEXPECTED_EOF"


def new_leaf(days: int = 30) -> Pair:
    return sign_leaf(AUTHORITY, [NAME, "127.0.0.1"], NOW, timedelta(days=days))


def put(folder: Path, pair: Pair) -> int:
    """Write a pair where the server reads it, and return the serial number to expect."""
    store.write(folder, encode_serving(pair), replace=True)
    return pair.certificate.serial_number


@pytest.fixture
def first(tmp_path: Path) -> int:
    return put(tmp_path, new_leaf())


@pytest.fixture
def serving(tmp_path: Path, first: int) -> ServingCertificate:
    return ServingCertificate(tmp_path / "tls.crt", tmp_path / "tls.key", interval=0)


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while line := await reader.readline():
            writer.write(line)
            await writer.drain()
    finally:
        writer.transport.abort()


def _on_an_event_loop(context: ssl.SSLContext) -> Iterator[Address]:
    """Echo lines over TLS as the server's own worker listens: on one event loop, through SSLObject."""

    async def listen() -> None:
        server = await asyncio.start_server(_echo, "127.0.0.1", 0, ssl=context)
        asyncio.get_running_loop().set_exception_handler(lambda _loop, _failed_handshake: None)
        stop = asyncio.Event()
        listening.set_result((server.sockets[0].getsockname(), asyncio.get_running_loop(), stop))
        async with server:
            await stop.wait()

    listening: Future[tuple[Address, asyncio.AbstractEventLoop, asyncio.Event]] = Future()
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(asyncio.run, listen())
        address, loop, stop = listening.result(timeout=30)
        try:
            yield address
        finally:
            loop.call_soon_threadsafe(stop.set)
            running.result(timeout=30)


def _on_threads(context: ssl.SSLContext) -> Iterator[Address]:
    """Echo lines over TLS from a thread a connection, through SSLSocket."""

    def echo(connection: socket.socket) -> None:
        try:
            with context.wrap_socket(connection, server_side=True) as tls:
                while line := tls.recv(100):
                    tls.sendall(line)
        except OSError:
            connection.close()  # a handshake that is meant to fail

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=echo, args=[connection], daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield listener.getsockname()
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.fixture(params=[_on_an_event_loop, _on_threads], ids=["event loop", "threads"])
def address(request: pytest.FixtureRequest, serving: ServingCertificate) -> Iterator[Address]:
    yield from request.param(serving.context)


def client(version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=CA)
    context.minimum_version = context.maximum_version = version
    return context


def connect(
    address: Address,
    name: str | None = NAME,
    context: ssl.SSLContext | None = None,
    session: ssl.SSLSession | None = None,
) -> ssl.SSLSocket:
    context = context or client()
    context.check_hostname = name is not None
    connection = socket.create_connection(address, timeout=30)
    return context.wrap_socket(connection, server_hostname=name, session=session)


def serial(connection: ssl.SSLSocket) -> int:
    certificate = connection.getpeercert()
    assert certificate is not None
    return int(str(certificate["serialNumber"]), 16)


def serial_seen(address: Address, name: str | None = NAME, context: ssl.SSLContext | None = None) -> int:
    with connect(address, name, context) as connection:
        return serial(connection)


def says(connection: ssl.SSLSocket, line: bytes = b"hello\n") -> bool:
    connection.sendall(line)
    return connection.recv(100) == line


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("name", [NAME, "127.0.0.1", None], ids=["by name", "by address", "unnamed"])
def test_every_client_gets_the_new_certificate_whether_it_sends_a_server_name_or_not(
    tmp_path: Path,
    serving: ServingCertificate,
    first: int,
    address: Address,
    name: str | None,
    version: ssl.TLSVersion,
) -> None:
    callback = serving.context.sni_callback
    assert callback is not None
    sent: list[str | None] = []

    def listen_in(connection: ssl.SSLObject, server_name: str, context: ssl.SSLContext) -> int | None:
        sent.append(server_name)
        return callback(connection, server_name, context)

    serving.context.sni_callback = listen_in
    assert serial_seen(address, name, client(version)) == first
    for _ in range(2):
        expected = put(tmp_path, new_leaf())
        assert serial_seen(address, name, client(version)) == expected
    assert sent == 3 * [NAME if name == NAME else None]


def test_swaps_under_load_lose_no_connection_and_no_message(tmp_path: Path, first: int, address: Address) -> None:
    swaps, seen, done = 32, set[int](), threading.Event()

    def stay() -> int:
        count = 0
        with connect(address) as connection:
            while not done.is_set():
                assert says(connection)
                count += 1
        return count

    def come_and_go(name: str | None) -> int:
        context, count = client(), 0
        while not done.is_set():
            with connect(address, name, context) as connection:
                assert says(connection)
                seen.add(serial(connection))
            count += 1
        return count

    with ThreadPoolExecutor(4) as pool:
        staying = [pool.submit(stay) for _ in range(2)]
        coming = [pool.submit(come_and_go, name) for name in (NAME, None)]
        try:
            for _ in range(swaps):
                last = put(tmp_path, new_leaf())
                while last not in seen and not any(each.done() for each in staying + coming):
                    time.sleep(0.001)
        finally:
            done.set()
        messages = [each.result() for each in staying]
        handshakes = [each.result() for each in coming]
    assert len(seen - {first}) == swaps
    assert min(messages) > 0
    assert min(handshakes) > 0
    assert serial_seen(address) == serial_seen(address, None) == last


def test_an_open_connection_goes_on_with_the_certificate_it_began_with(
    tmp_path: Path, first: int, address: Address
) -> None:
    with connect(address) as connection:
        expected = put(tmp_path, new_leaf())
        assert serial_seen(address) == expected
        assert says(connection)
        assert serial(connection) == first


def test_a_secret_that_the_kubelet_updates_is_noticed(tmp_path: Path) -> None:
    """It writes a new folder and renames a symlink to it; the paths of the files themselves never change."""

    def publish(number: int, pair: Pair) -> int:
        expected = put(tmp_path / f"..{number}", pair)
        (tmp_path / "..data_tmp").symlink_to(f"..{number}")
        (tmp_path / "..data_tmp").replace(tmp_path / "..data")
        return expected

    publish(1, new_leaf())
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    mounted = ServingCertificate(tmp_path / "tls.crt", tmp_path / "tls.key", interval=0)
    for address in _on_an_event_loop(mounted.context):
        for number in (2, 3):
            expected = publish(number, new_leaf())
            assert serial_seen(address) == serial_seen(address, None) == expected


def _foreign_key(folder: Path) -> None:
    (folder / "tls.key").write_bytes(encode_serving(new_leaf())["tls.key"])


def _half_a_certificate(folder: Path) -> None:
    (folder / "tls.crt").write_bytes(encode_serving(new_leaf())["tls.crt"][:300])


def _no_key(folder: Path) -> None:
    (folder / "tls.key").unlink()


def _empty_key(folder: Path) -> None:
    (folder / "tls.key").write_bytes(b"")


def _encrypted_key(folder: Path) -> None:
    pair = new_leaf()
    put(folder, pair)
    encrypted = pair.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    (folder / "tls.key").write_bytes(encrypted)


DAMAGES = pytest.mark.parametrize(
    "damage, sentence",
    [
        (_foreign_key, "does not belong to"),
        (_half_a_certificate, "hold no pair of unencrypted PEM"),
        (_no_key, "cannot be read: No such file"),
        (_empty_key, "hold no pair of unencrypted PEM"),
        (_encrypted_key, "hold no pair of unencrypted PEM"),
    ],
)


@DAMAGES
def test_a_damaged_pair_is_refused_with_one_log_line_and_the_old_one_goes_on(
    tmp_path: Path,
    first: int,
    address: Address,
    caplog: pytest.LogCaptureFixture,
    damage: Callable[[Path], None],
    sentence: str,
) -> None:
    damage(tmp_path)
    assert [serial_seen(address, name) for name in (NAME, None, NAME)] == [first] * 3
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert sentence in record.message
    expected = put(tmp_path, new_leaf())
    assert serial_seen(address) == expected
    assert "PRIVATE" not in caplog.text


@DAMAGES
def test_a_server_does_not_start_with_a_damaged_pair(
    tmp_path: Path, first: int, damage: Callable[[Path], None], sentence: str
) -> None:
    damage(tmp_path)
    with pytest.raises(UnusablePairError, match=sentence):
        ServingCertificate(tmp_path / "tls.crt", tmp_path / "tls.key")


def test_the_same_damage_is_logged_again_after_a_good_pair_was_there(
    tmp_path: Path, serving: ServingCertificate, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        _foreign_key(tmp_path)
        for _ in range(3):
            serving.refresh()
        put(tmp_path, new_leaf())
        serving.refresh()
    assert len([each for each in caplog.records if each.levelno == logging.WARNING]) == 2


def test_a_pair_that_is_written_between_two_reads_is_taken_whole_at_the_next_look(
    tmp_path: Path, serving: ServingCertificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = ssl.SSLContext.load_cert_chain
    newest = new_leaf(days=9)

    def load_then_write(context: ssl.SSLContext, certificate: Path, key: Path, password: str) -> None:
        load(context, certificate, key, password)
        put(tmp_path, newest)

    put(tmp_path, new_leaf(days=8))
    before = serving.not_after
    put(tmp_path, new_leaf(days=7))
    with monkeypatch.context() as patch:
        patch.setattr(ssl.SSLContext, "load_cert_chain", load_then_write)
        assert serving.not_after == before
    assert serving.not_after == newest.certificate.not_valid_after_utc


def test_the_files_are_looked_at_once_in_an_interval(tmp_path: Path, first: int) -> None:
    clock = [100.0]
    serving = ServingCertificate(tmp_path / "tls.crt", tmp_path / "tls.key", clock=lambda: clock[0])
    before = serving.not_after
    put(tmp_path, new_leaf(days=9))
    clock[0] += 0.9
    assert serving.not_after == before
    clock[0] += 0.2
    assert serving.not_after == (NOW + timedelta(days=9)).replace(microsecond=0)


def test_the_end_of_validity_follows_although_nobody_connects(tmp_path: Path, serving: ServingCertificate) -> None:
    put(tmp_path, new_leaf(days=9))
    assert serving.not_after == (NOW + timedelta(days=9)).replace(microsecond=0)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_that_wants_to_resume_its_session_is_shown_the_new_certificate(
    tmp_path: Path, first: int, address: Address, version: ssl.TLSVersion
) -> None:
    context = client(version)
    with connect(address, context=context) as connection:
        assert says(connection)
        session = connection.session
    expected = put(tmp_path, new_leaf())
    with connect(address, context=context, session=session) as connection:
        assert not connection.session_reused
        assert serial(connection) == expected


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_tls_1_1_is_refused_before_and_after_a_swap(tmp_path: Path, address: Address) -> None:
    old = ssl.create_default_context(cadata=CA)
    old.set_ciphers("ALL:@SECLEVEL=0")  # else this client would not even ask
    old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    for _ in range(2):
        with pytest.raises(ssl.SSLError, match=REFUSED):
            connect(address, context=old)
        expected = put(tmp_path, new_leaf())
        assert serial_seen(address) == expected


def test_suites_without_forward_secrecy_are_refused(address: Address) -> None:
    weak = client(ssl.TLSVersion.TLSv1_2)
    weak.set_ciphers("AES128-GCM-SHA256:ECDHE-ECDSA-AES128-SHA256")
    with pytest.raises(ssl.SSLError, match=REFUSED):
        connect(address, context=weak)


def test_http_1_1_is_agreed_on_before_and_after_a_swap(tmp_path: Path, address: Address) -> None:
    offering = client()
    offering.set_alpn_protocols(["h2", "http/1.1"])
    for _ in range(2):
        with connect(address, context=offering) as connection:
            assert connection.selected_alpn_protocol() == "http/1.1"
        put(tmp_path, new_leaf())


def test_half_a_handshake_stops_nobody_else(tmp_path: Path, address: Address) -> None:
    with socket.create_connection(address) as silent, socket.create_connection(address) as broken:
        broken.sendall(b"\x16\x03\x01\x02\x00\x01")
        expected = put(tmp_path, new_leaf())
        assert serial_seen(address) == expected
        silent.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert serial_seen(address, None) == expected
