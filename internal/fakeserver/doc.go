// Package fakeserver is a model server that misbehaves on demand: an
// OpenAI-compatible chat completions endpoint for tests and for trying things
// without a network, a key or a model.
//
// A [Script] decides on the reply to each request. A reply is made of steps,
// and steps are data: tables can list them, and they print themselves.
//
//	srv := fakeserver.New(fakeserver.Config{Script: fakeserver.Sequence(
//		fakeserver.Reply(fakeserver.RetryAfter(time.Second), fakeserver.Throttled()),
//		fakeserver.Reply(fakeserver.Text("half an ans"), fakeserver.Hang()),
//		fakeserver.Answer("a whole answer"),
//	)})
//	defer srv.Close()
//	client := &http.Client{Transport: srv.Transport()}
//
// # What it promises
//
//   - The same scripts play over a network in memory ([New]) and over a
//     loopback listener ([Listen]), through net/http's own server on both, by
//     HTTP/1.1 and by HTTP/2 without TLS.
//   - In memory all waits are on channels and timers: in a testing/synctest
//     bubble a reply takes exactly the time that its steps add up to. A
//     connection there behaves like TCP where a client can tell: buffers, half
//     an answer before a close, resets as resets, deadlines.
//   - Trouble below HTTP ([NetFault]) is data as well: refused, hanging in the
//     dial, never read, lost without a word, closed while idle.
//   - What was received, when, on which connection, and when the client went
//     away is on the books: [Server.Requests], [Server.Stats]. [Server.Await]
//     waits for it without sleeping.
//   - [Faults] dealt out at random follow from the seed, the conversation and
//     the number of its request alone, so a run can be repeated however its
//     goroutines were scheduled.
//   - [Server.Close] ends every reply and every connection, and returns when
//     nothing runs any more. The package never logs.
//
// A client that asks for a plain answer gets the same reply as one JSON
// answer: what the steps say is gathered until the reply ends. Steps that have
// no meaning outside a stream, such as pings, are left out then.
//
// An [Author] plays a whole agent's model: it reads, writes and saves through
// tools, looking at nothing but the conversation, and can be given the bad
// habits of real models.
package fakeserver
