"""Whether a worker is there: it may not have started yet, be stopped, or answer."""

import socket
import threading

import tensorflow as tf

from returnn.tf.distributed.addresses import server_answers


def test_a_server_of_tensorflow_answers():
    server = tf.distribute.Server({"worker": ["localhost:0"]}, job_name="worker", task_index=0)
    assert server_answers(server.target.removeprefix("grpc://"), timeout_s=60)


def test_nobody_listens():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        assert not server_answers(f"127.0.0.1:{server.getsockname()[1]}", timeout_s=0.3)


def test_a_stopped_process_listens_but_does_not_answer():
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not server_answers(f"127.0.0.1:{server.getsockname()[1]}", timeout_s=0.3)


def test_one_that_starts_late_is_waited_for():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))

        def answer() -> None:
            server.listen()
            connection, _ = server.accept()
            with connection:
                connection.recv(100)
                connection.sendall(b"settings")

        thread = threading.Timer(0.1, answer)  # connections are refused until then
        thread.start()
        assert server_answers(f"127.0.0.1:{server.getsockname()[1]}", timeout_s=60)
        thread.join()
