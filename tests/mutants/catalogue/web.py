"""What the page does for who sends what he may not, takes nothing, or has gone."""

from tests.mutants.mutation import Mutation

CONNECTION = "tests/plugins/web/connections/test_connection.py::"
FRAMES = "tests/plugins/web/connections/test_frames.py::"
TURNS = "tests/plugins/web/connections/test_turns.py::"

MUTATIONS = [
    Mutation(
        name="who takes nothing of an answer over HTTP/2 keeps the connection",
        file="plugins/web/http2.py",
        old="        if waiting.cancelled_caught:\n",
        new="        if False:\n",
        tests=(CONNECTION + "TestWhoTakesNothing",),
    ),
    Mutation(
        name="an answer waits for a client of HTTP/2 that has gone",
        file="plugins/web/http2.py",
        old="                    await buffer.close()\n",
        new="                    pass\n",
        tests=(CONNECTION + "TestWhoTakesNothing",),
    ),
    Mutation(
        name="over HTTP/2 the goodbye at drain overtakes the end of an answer",
        file="plugins/web/http2.py",
        old="        return isinstance(event, EndBody) or ",
        new="        return ",
        tests=(CONNECTION + "TestDraining",),
    ),
    Mutation(
        name="an endless answer over HTTP/2 is kept for who does not take it",
        file="plugins/web/http2.py",
        old=" or bool(self.stream_buffers[event.stream_id].buffer)\n",
        new="\n",
        tests=(CONNECTION + "TestWhoTakesNothing",),
    ),
    Mutation(
        name="a body that comes after its answer ends the connection",
        file="plugins/web/http2.py",
        old="        if stream_id in self.streams:\n",
        new="        if True:\n",
        tests=(FRAMES + "TestFrames",),
    ),
    Mutation(
        name="a WebSocket that does not wait for an answer is an error of the site",
        file="plugins/web/http1.py",
        old='(b"upgrade", b"websocket")',
        new='(b"", b"")',
        tests=(FRAMES + "TestFrames",),
    ),
    Mutation(
        name="a WebSocket over HTTP/2 cancels other requests of its connection",
        file="plugins/web/http2.py",
        old='        elif head[b":method"].upper() == b"CONNECT":\n',
        new='        elif b":path" not in head:\n',
        tests=(FRAMES + "TestFrames",),
    ),
    Mutation(
        name="a body that is refused blocks its answer",
        file="plugins/web/connection.py",
        old="            incoming.read_no_more()\n            await send(message)\n",
        new="            await send(message)\n",
        tests=(FRAMES + "test_an_answer_is_taken_while_a_body_still_comes_that_nobody_reads",),
    ),
    Mutation(
        name="what a client sends wrong is an error of the site",
        file="plugins/web/connection.py",
        old="        except Exception as error:\n            _log.info(",
        new="        except KeyError as error:\n            _log.info(",
        tests=(FRAMES + "TestFrames",),
    ),
    Mutation(
        name="the API publishes for who may do so no more",
        file="plugins/web/publishing.py",
        old="            await request.state.still()\n",
        new="",
        tests=("tests/plugins/web/test_accounts.py::TestRightsLost",),
    ),
    Mutation(
        name="a form that is refused has changed a part",
        file="plugins/web/actions.py",
        old=(
            '        mode, timeout_s = MODES.get(fields.get("delivery", "")), '
            '_seconds(fields.get("timeout", ""))\n'
            "        await self._site.operations.set_delivery(name, mode, by)\n"
        ),
        new=(
            '        mode = MODES.get(fields.get("delivery", ""))\n'
            "        await self._site.operations.set_delivery(name, mode, by)\n"
            '        timeout_s = _seconds(fields.get("timeout", ""))\n'
        ),
        tests=("tests/plugins/web/test_pages.py::TestTopics",),
    ),
    Mutation(
        name="forms are counted nowhere",
        file="plugins/web/publishing.py",
        old="    if not UNCOUNTED_BYTES < size <= bytes_max:\n        return",
        new="    if True:\n        return",
        tests=("tests/plugins/web/test_attacks.py::TestUploads",),
    ),
    Mutation(
        name="who cancels requests at once has any number under way",
        file="plugins/web/http2.py",
        old="        if self._full():\n",
        new="        if False:\n",
        tests=(FRAMES + "TestRequestsThatAreCancelledAtOnce",),
    ),
    Mutation(
        name="requests under way over HTTP/2 have heads of any size",
        file="plugins/web/connection.py",
        old="sum(incoming.head_bytes for incoming in self._requests) >= HEADS_BYTES_MAX",
        new="False",
        tests=(FRAMES + "TestRequestsThatAreCancelledAtOnce",),
    ),
    Mutation(
        name="who has too many requests under way does not know whether one was carried out",
        file="plugins/web/http2.py",
        old="reset_stream(stream_id, ErrorCodes.REFUSED_STREAM)",
        new="reset_stream(stream_id)",
        tests=(FRAMES + "TestRequestsThatAreCancelledAtOnce",),
    ),
    Mutation(
        name="an upload over HTTP/2 that waits for room holds up the others of its connection",
        file="plugins/web/connection.py",
        old="        while self._taken is None and self._body and",
        new="        while self._body and",
        tests=(FRAMES + "TestTwoUploads",),
    ),
    Mutation(
        name="an upload over HTTP/2 that waits for room is kept in memory at any size",
        file="plugins/web/http2.py",
        old="self._allow(stream_id, size - len(event.data))",
        new="self._allow(stream_id, size)",
        tests=(FRAMES + "TestTwoUploads",),
    ),
    Mutation(
        name="bodies over HTTP/2 of who is nobody are kept, one window for each of his requests",
        file="plugins/web/http2.py",
        old="        if self._untaken_bytes <= UNTAKEN_BYTES_MAX:\n",
        new="        if True:\n",
        tests=(FRAMES + "TestBodiesThatNobodyReceivesYet",),
    ),
    Mutation(
        name="a part of a body is kept for a request that was cancelled",
        file="plugins/web/connection.py",
        old="        if not self._whole:  # nor ever will be\n",
        new="        if False:\n",
        tests=(FRAMES + "TestBodiesThatNobodyReceivesYet",),
    ),
    Mutation(
        name="all that a connection of HTTP/2 has sent is read at once",
        file="plugins/web/connection.py",
        old="            if perf_counter() - began > TURN_S:\n",
        new="            if False:\n",
        tests=(TURNS + "test_heads_that_are_hard_to_read_are_read_a_few_in_a_turn",),
    ),
    Mutation(
        name="of all connections of HTTP/2 a part is read in each turn of the event loop",
        file="plugins/web/connection.py",
        old="        async with self._turn:  # a turn of the event loop, also where nobody waits\n",
        new="        async with trio.Lock():\n",
        tests=(TURNS + "test_heads_that_are_hard_to_read_are_read_a_few_in_a_turn",),
    ),
    Mutation(
        name="a head over HTTP/2 may be larger than was told",
        file="daemon/connections/http2.py",
        old="UpdatesBounded(head_bytes_max)",
        new="UpdatesBounded(65_536)",
        tests=(FRAMES + "TestFrames",),
    ),
    Mutation(
        name="metrics tell of no more topics than one page has",
        file="daemon/operations/topics.py",
        old='self._summaries("", order, 0, count)',
        new='self._summaries("", order, 0, min(count, TOPICS_MAX))',
        tests=("tests/plugins/web/test_metrics.py::test_more_topics_are_told_than_one_page_has",),
    ),
    Mutation(
        name="requests of HTTP/1.1 that come one behind the other are read at once with those of others",
        file="plugins/web/http1.py",
        old="        await self._have_a_turn()\n",
        new="        pass\n",
        tests=(TURNS + "test_so_are_those_of_http_1_that_come_one_behind_the_other",),
    ),
    Mutation(
        name="what a request that was cancelled may send, which is forgotten by now, is an error",
        file="plugins/web/http2.py",
        old="suppress(ProtocolError, KeyError)",
        new="suppress(ProtocolError)",
        tests=(FRAMES + "TestFrames",),
    ),
    Mutation(
        name="a head over HTTP/2 begins with any number of updates of its table",
        file="daemon/connections/http2.py",
        old="        if self._updates > UPDATES_MAX:\n",
        new="        if False:\n",
        tests=(FRAMES + "TestFrames",),
    ),
    Mutation(
        name="a head over HTTP/2 is kept at any size until its end comes",
        file="daemon/connections/http2.py",
        old="            if head_bytes > self._head_bytes_max:\n",
        new="            if False:\n",
        tests=(FRAMES + "TestFrames",),
    ),
    Mutation(
        name="a frame that is too long is kept until it is whole",
        file="daemon/connections/http2.py",
        old="        if len(self._data) >= LENGTH_BYTES:\n",
        new="        if False:\n",
        tests=(FRAMES + "TestFrames",),
    ),
    Mutation(
        name="who asks for HTTP/2 in HTTP/1.1 gets it, over TLS, too",
        file="plugins/web/http1.py",
        old="    async def _check_protocol(",
        new="    async def _check_no_protocol(",
        tests=(FRAMES + "TestFrames",),
    ),
    Mutation(
        name="a body over HTTP/2 is read as slowly as heads",
        file="daemon/connections/http2.py",
        old="self._data[LENGTH_BYTES] != DataFrame.type",
        new="True",
        tests=("tests/daemon/connections/test_http2.py",),
    ),
    Mutation(
        name="a request over HTTP/2 that comes once the site drains is refused without leave to repeat it",
        file="plugins/web/http2.py",
        old="                self._refuse(event.stream_id)  #",
        new="                self.connection.reset_stream(event.stream_id)  #",
        tests=("tests/plugins/web/connections/test_connection.py::TestDraining",),
    ),
    Mutation(
        name="a head counts without its path",
        file="plugins/web/http2.py",
        old='_kept_bytes(request.headers, head[b":path"])',
        new='_kept_bytes([each for each in request.headers if each[0][:1] != b":"], b"")',
        tests=(FRAMES + "TestRequestsThatAreCancelledAtOnce",),
    ),
    Mutation(
        name="a body of HTTP/1.1 in small chunks is read at once",
        file="plugins/web/http1.py",
        old="        return max(AT_ONCE_BYTES, left)\n",
        new="        return 65_536\n",
        tests=(TURNS + "TestABodyInSmallChunks",),
    ),
    Mutation(
        name="a request that waits for its turn is dropped where the site drains",
        file="plugins/web/connection.py",
        old="        if not self._requests and not self._handling:\n",
        new="        if not self._requests:\n",
        tests=("tests/plugins/web/connections/test_connection.py::TestDraining",),
    ),
    Mutation(
        name="what the handshake took of the time for a login is given again",
        file="daemon/connections/client_connection.py",
        old="        self._output.login_by = login_by\n",
        new="        self._output.login_by = trio.current_time() + site.limits.login_timeout_s\n",
        tests=(
            "tests/plugins/smqp/test_logging_in.py"
            "::test_who_has_taken_some_of_the_time_to_connect_has_the_rest_of_it_to_log_in",
        ),
    ),
    Mutation(
        name="what the handshake took of the time for a request is given again",
        file="plugins/web/connection.py",
        old="trio.CancelScope(deadline=login_by)",
        new="trio.CancelScope(deadline=trio.current_time() + site.limits.login_timeout_s)",
        tests=(
            "tests/plugins/web/connections/test_connection.py"
            "::test_who_has_taken_some_of_the_time_to_connect_has_the_rest_of_it_to_ask",
        ),
    ),
    Mutation(
        name="a head of ours says of each change of the size of its table",
        file="daemon/connections/http2.py",
        old="    connection.encoder = ChangesJoined()\n",
        new="",
        tests=("tests/daemon/connections/test_http2.py",),
    ),
]
