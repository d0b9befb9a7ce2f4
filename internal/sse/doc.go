// Package sse reads event streams as the WHATWG HTML standard defines them
// (section 9.2, server-sent events), byte by byte and with bounded memory.
//
// # What it promises
//
//   - Lines end with LF, CRLF or CR, in any mixture, and an event is reported
//     as soon as the byte that ends it has arrived: the LF that may follow a CR
//     is not waited for.
//   - The same bytes give the same events and the same error, however reads cut
//     them up.
//   - Byte order marks are dropped at the start and, beyond the standard, before
//     any other line, since streams that are made of several have them in between.
//     An unfinished event at the end of the stream is discarded, as the standard
//     says, and reported as io.ErrUnexpectedEOF.
//   - An event larger than the limit is an error that names the limit, never a
//     silent end, and the buffer never holds more than the limit and 4 KiB.
//
// It reports three things that the standard ignores. Comments are reported as
// [Ping], since servers send them to show that they are alive. So are events whose
// data is missing or empty. Unknown fields are reported as [Field], since one widely
// used server once sent its errors that way.
//
//	r := sse.NewReader(resp.Body, 16<<20)
//	for {
//		ev, err := r.Next()
//		if err != nil {
//			return err // io.EOF: the stream ended between two events
//		}
//		if ev.Kind == sse.Message {
//			use(ev.Data)
//		}
//	}
package sse
