"""Processes that share, fork, kill and close a store."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from flashbulb import (
    CorruptStore,
    Memory,
    StoreClosed,
    StoreForked,
    StoreLocked,
)


def run(program: str, *arguments: object) -> subprocess.Popen[str]:
    """Another Python process."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
    )


HOLDER = """
    import sys
    from flashbulb import Memory
    memory = Memory(sys.argv[1])
    memory.remember("held")
    print("open", flush=True)
    sys.stdin.read() if len(sys.argv) > 2 else __import__("time").sleep(60)
"""


# The lock


def test_a_second_opening_in_the_same_process_is_refused_at_once(store: Path) -> None:
    link = store.with_name("link.db")
    link.symlink_to(store)
    with Memory(store) as memory:
        for path in (store, str(store), link, store.parent / "." / "agent.db"):
            start = time.monotonic()
            with pytest.raises(StoreLocked, match="already open in this process"):
                Memory(path, timeout=30)
            assert time.monotonic() - start < 10
        memory.remember("unharmed")
    with Memory(link) as memory:
        assert len(memory) == 1


def test_another_process_gets_the_lock_when_its_holder_is_killed(store: Path) -> None:
    holder = run(HOLDER, store)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(StoreLocked, match=f"pid {holder.pid}"):
            Memory(store, timeout=0)
        start = time.monotonic()
        with pytest.raises(StoreLocked):
            Memory(store, timeout=0.3)
        assert time.monotonic() - start >= 0.3
        timer = threading.Timer(0.3, holder.kill)
        timer.start()
        with Memory(store, timeout=60) as memory:
            assert [record.text for record in memory.list()] == ["held"]
        timer.join()
    finally:
        holder.kill()
        holder.communicate()


def test_a_memory_that_is_dropped_gives_the_store_back(store: Path) -> None:
    memory = Memory(store)
    memory.remember("x")
    memory.recall("x")
    del memory
    with Memory(store) as memory:
        assert memory.get(1).access_count == 1


def test_a_failed_opening_gives_the_lock_back(store: Path) -> None:
    store.write_bytes(b"garbage" * 1000)
    for _ in range(2):
        with pytest.raises(CorruptStore):
            Memory(store)


def test_twenty_processes_race_to_create_a_store(store: Path) -> None:
    """They wait for one another before it, so that all come at once."""
    program = """
        import os, sys
        from flashbulb import Memory
        def embed(texts):
            return [[len(text), 1.0] for text in texts]
        read, write = os.pipe()
        children = []
        for n in range(20):
            child = os.fork()
            if child == 0:
                os.close(write)
                os.read(read, 1)  # until the parent closes the other end
                with Memory(sys.argv[1], embedder=embed, neutral=True, timeout=300) as memory:
                    memory.remember(f"from {n}")
                os._exit(0)
            children.append(child)
        os.close(write)
        for child in children:
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    assert run(program, store).communicate()[0].split() == ["0"] * 20

    def embed(texts: list[str]) -> list[list[float]]:
        return [[len(text), 1.0] for text in texts]

    with Memory(store, embedder=embed, neutral=True) as memory:
        assert {record.text for record in memory.list()} == {f"from {n}" for n in range(20)}
        assert {record.id for record in memory.list()} == set(range(1, 21))
    assert list(store.parent.iterdir()) == [store]


def test_processes_that_open_and_close_in_turn_lose_nothing(store: Path) -> None:
    """The lock file goes with its holder, and others wait for it meanwhile."""
    program = """
        import sys
        from flashbulb import Memory
        for n in range(30):
            with Memory(sys.argv[1], timeout=120, durability="normal") as memory:
                print(memory.remember(f"from {sys.argv[2]}: {n}").id)
    """
    racers = [run(program, store, n) for n in range(3)]
    printed = [racer.communicate()[0] for racer in racers]
    assert [racer.returncode for racer in racers] == [0] * 3
    assert sorted(int(id) for lines in printed for id in lines.split()) == list(range(1, 91))
    with Memory(store) as memory:
        assert len(memory) == 90
    assert list(store.parent.iterdir()) == [store]


def test_a_file_with_two_names_is_refused_under_both(store: Path) -> None:
    link = store.with_name("link.db")
    with Memory(store) as memory:
        memory.remember("x")
        link.hardlink_to(store)
        with pytest.raises(StoreLocked):
            Memory(link)
        memory.remember("y")
    for path in (store, link):
        with pytest.raises(StoreLocked, match="2 names"):
            Memory(path)
    store.unlink()
    with Memory(link) as memory:
        assert len(memory) == 2


def test_one_file_is_open_once_whatever_it_is_called_by_then(store: Path) -> None:
    moved = store.with_name("moved.db")
    with Memory(store) as memory:
        memory.remember("x")
        store.rename(moved)
        with pytest.raises(StoreLocked, match="already open in this process"):
            Memory(moved)
        moved.rename(store)
        memory.remember("y")
    with Memory(store) as memory:
        assert len(memory) == 2


# Fork


def in_child(work: Any) -> int:
    """Fork, do the work in the child, return its exit code: what `work` returned, or 99."""
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(work())
        except BaseException:
            os._exit(99)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_is_refused_and_does_no_harm(store: Path) -> None:
    with Memory(store) as memory:
        id = memory.remember("parent's").id
        connection = memory._store.database._connection
        version = connection.execute("PRAGMA data_version").fetchone()
        memory.recall("parent")  # leaves something to be written at close

        def child() -> int:
            for call in (
                lambda: memory.remember("child's"),
                lambda: memory.recall("x"),
                lambda: memory.get(id),
                lambda: memory.forget(id),
                lambda: len(memory),
                lambda: memory.stats(),
                lambda: memory.compact(),
            ):
                with pytest.raises(StoreForked):
                    call()
            with pytest.raises(StoreForked, match="spawn"):
                Memory(store, timeout=0)
            memory.close()
            with pytest.raises(StoreForked, match="spawn"):
                Memory(store, timeout=0)
            return 7

        assert in_child(child) == 7
        assert connection.execute("PRAGMA data_version").fetchone() == version
        memory.remember("after the fork")
        assert (store.parent / "agent.db-wal").stat().st_size > 0
    with Memory(store) as memory:
        assert len(memory) == 2


@pytest.mark.parametrize("parent", ["stays open", "closes", "writes and closes"])
def test_a_child_forked_while_a_store_is_open_never_opens_it(store: Path, parent: str) -> None:
    """Whatever the parent does afterwards; another store is the child's to use."""
    program = """
        import os, sys
        from flashbulb import Memory, StoreForked
        memory = Memory(sys.argv[1])
        memory.remember("the parent's")
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.read(read, 1)
            for name in (sys.argv[1], sys.argv[1] + "/../agent.db"):
                try:
                    Memory(os.path.normpath(name), timeout=0).remember("the child's")
                except StoreForked:
                    pass
                else:
                    os._exit(1)
            with Memory(sys.argv[1] + ".other") as other:
                other.remember("the child's")
            grandchild = os.fork()
            if grandchild == 0:
                try:
                    Memory(sys.argv[1], timeout=0)
                except StoreForked:
                    os._exit(7)
                os._exit(1)
            os._exit(os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1]))
        if "writes" in sys.argv[2]:
            memory.remember_many([f"parent's {n}" for n in range(50)])
        if "closes" in sys.argv[2]:
            memory.close()
        os.write(write, b"x")
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with Memory(sys.argv[1] + ".other") as other:  # the parent never had it
            assert len(other) == 1
        if "closes" in sys.argv[2]:
            with Memory(sys.argv[1]) as again:
                again.remember("the parent's, again")
        sys.exit(code)
    """
    process = run(program, store, parent)
    process.communicate()
    assert process.returncode == 7
    with Memory(store) as memory:
        texts = [record.text for record in memory.list()]
    assert "the parent's" in texts
    assert "the child's" not in texts


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_that_lives_on_does_not_hold_the_lock(store: Path) -> None:
    memory = Memory(store)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(write)
        os.read(read, 1)
        os._exit(0)
    try:
        memory.close()
        with Memory(store, timeout=0) as again:
            again.remember("x")
    finally:
        os.write(write, b"x")
        os.waitpid(pid, 0)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_forked_while_a_thread_holds_the_lock_does_not_hang(store: Path) -> None:
    with Memory(store) as memory:
        with memory._store.locked():

            def child() -> int:
                signal.alarm(20)
                with pytest.raises(StoreForked):
                    memory.recall("x")
                return 7

            thread = threading.Thread(target=lambda: codes.append(in_child(child)))
            codes: list[int] = []
            thread.start()
            thread.join()
        assert codes == [7]


@pytest.mark.parametrize("ending", ["closes", "drops", "leaves to the interpreter"])
def test_children_forked_while_threads_work_never_hang(store: Path, ending: str) -> None:
    """They are refused before SQLite, FAISS or a pool is asked, and use a store of their own."""
    program = """
        import gc, os, signal, sys, threading, warnings
        from flashbulb import Memory, StoreForked
        warnings.simplefilter("ignore", DeprecationWarning)
        path, ending = sys.argv[1:]
        def embed(texts):
            return [[len(text), hash(text) % 97 + 1.0, 1.0] for text in texts]
        memory = Memory(path, embedder=embed, durability="normal")
        memory.remember_many([f"event {n}" for n in range(500)])
        reader = Memory(path, embedder=embed, read_only=True)
        done = threading.Event()
        def work(number):
            n = 0
            while not done.is_set():
                n += 1
                memory.recall(f"event {n % 50}")
                memory.remember(f"thread {number}: {n}")
                if n % 5 == 0:
                    reader.refresh()
                    reader.recall("event 3")
        threads = [threading.Thread(target=work, args=(n,)) for n in range(2)]
        for thread in threads:
            thread.start()
        for _ in range(6):
            child = os.fork()
            if child == 0:
                signal.alarm(60)
                for call in (
                    lambda: memory.recall("x"),
                    lambda: memory.remember("x"),
                    lambda: memory.backup(path + ".copy"),
                    memory.check,
                    reader.refresh,
                    reader.list,
                    lambda: Memory(path, embedder=embed, timeout=0),
                    lambda: Memory(path, embedder=embed, read_only=True),
                ):
                    try:
                        call()
                    except StoreForked:
                        pass
                    else:
                        os._exit(1)
                with Memory(f"{path}.{os.getpid()}", embedder=embed) as own:
                    own.remember("x")
                    assert len(own.recall("x")) == 1
                if ending == "closes":
                    memory.close()
                    reader.close()
                elif ending == "drops":
                    del call
                    memory = reader = None
                    gc.collect()
                sys.exit(7)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        done.set()
        for thread in threads:
            thread.join()
        memory.close()
        reader.close()
    """
    process = run(program, store, ending)
    assert process.communicate()[0].split() == ["7"] * 6
    assert process.returncode == 0


def test_the_lock_goes_with_a_killed_holder_though_its_child_lives(store: Path) -> None:
    program = """
        import os, sys, time
        from flashbulb import Memory
        memory = Memory(sys.argv[1])
        memory.remember("held")
        child = os.fork()
        if child:
            print(child, flush=True)
        time.sleep(60)
    """
    holder = run(program, store)
    assert holder.stdout is not None
    child = int(holder.stdout.readline())
    try:
        holder.kill()
        holder.wait()
        with Memory(store) as memory:
            assert len(memory) == 1
    finally:
        os.kill(child, signal.SIGKILL)
        holder.communicate()


# What survives


def test_every_acknowledged_row_survives_kill_9(store: Path) -> None:
    program = """
        import sys
        from flashbulb import Memory
        memory = Memory(sys.argv[1], durability=sys.argv[2])
        for n in range(100000):
            id = memory.remember(f"event {n}", tags=[f"t{n % 3}"], urgency=0.5).id
            if n % 5 == 4:
                memory.forget(id - 2)
            if n % 7 == 6:
                memory.complete(id)
            print(id, flush=True)
    """
    for durability in ("full", "normal"):
        file = store.with_name(f"{durability}.db")
        writer = run(program, file, durability)
        assert writer.stdout is not None
        acknowledged = [int(writer.stdout.readline()) for _ in range(150)]
        writer.kill()
        rest, _ = writer.communicate()
        acknowledged += [int(line) for line in rest.split("\n")[:-1]]
        with Memory(file) as memory:
            records = {record.id: record for record in memory.list()}
            last = acknowledged[-1]
            assert acknowledged == list(range(1, last + 1))
            for id in acknowledged[:-5]:
                n = id - 1
                if n % 5 == 2:
                    assert id not in records
                else:
                    assert records[id].text == f"event {n}"
                    assert records[id].status == ("completed" if n % 7 == 6 else "open")
            assert memory.recall(f"event {last - 1}", k=1)[0].text == f"event {last - 1}"


@pytest.mark.parametrize("ending", ["", "sys.exit(3)", "raise KeyboardInterrupt", "os._exit(0)"])
def test_rows_survive_every_end_of_a_program(store: Path, ending: str) -> None:
    program = f"""
        import os, sys
        from flashbulb import Memory
        memory = Memory(sys.argv[1])
        memory.remember("acknowledged")
        sys.stderr = open(os.devnull, "w")
        {ending}
    """
    run(program, store).communicate()
    with Memory(store) as memory:
        assert [record.text for record in memory.list()] == ["acknowledged"]


# Threads


def test_counts_are_exact_across_threads(store: Path, clock: Any) -> None:
    with Memory(store, clock=clock) as memory:
        memory.remember("the one memory")

        def work(number: int) -> None:
            for n in range(50):
                memory.recall("memory")
                memory.remember("the one memory")
                memory.remember(f"own {number} {n}", now=clock.now)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert memory.get(1).access_count == 200
        assert len(memory.get(1).occurrences) == 201
        assert len(memory) == 201
    with Memory(store, clock=clock) as memory:
        assert memory.get(1).access_count == 200
        assert sorted(r.text for r in memory.list())[0].startswith("own")


def test_closing_while_others_work_ends_them_cleanly(store: Path) -> None:
    memory = Memory(store, durability="normal")
    memory.remember_many([f"event {n}" for n in range(50)])
    ends: list[BaseException] = []
    acknowledged: list[int] = []

    def work(number: int) -> None:
        try:
            for n in range(100_000):
                memory.recall(f"event {n % 50}")
                acknowledged.append(memory.remember(f"thread {number} event {n}").id)
                if n % 5 == 4:
                    memory.forget(n % 50)
        except BaseException as error:
            ends.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    memory.close()
    for thread in threads:
        thread.join(60)
    assert [type(end) for end in ends] == [StoreClosed] * 3
    with Memory(store) as memory:
        records = memory.list()
        assert {record.id for record in records} >= {id for id in acknowledged if id > 50}
        for record in records[-20:]:
            assert record.id in [hit.id for hit in memory.recall(record.text, k=3)]
