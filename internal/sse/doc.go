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
//   - Byte order marks are dropped, at the very start and, beyond the standard,
//     before any other line: streams that are put together of several have them
//     in between. Text that is left when the stream ends is discarded, as the
//     standard says, and reported as such.
//   - An event larger than the limit is an error that names the limit, never a
//     silent end, and the buffer never holds more than the limit and 4 KiB.
//
// In three points it tells more than the standard does, because its users watch
// servers rather than obey them. Comments are reported as [Ping], since they
// are how a server says that it is alive. So are events whose data is missing
// or empty: there is nothing in them to decode. And fields that the standard
// ignores are reported as [Field], since one widely used server once sent its
// errors that way.
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
