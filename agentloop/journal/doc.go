// Package journal keeps logs of JSON lines that survive whatever ends the
// process: a kill, a crash, a full disk, a power cut.
//
// A [Journal] is a folder of one run, and a [Log] one file in it, such as one for
// each agent. What a line means is for those who write it; see docs/journal.md of
// this module for what agentloop writes.
//
// # What it promises
//
//   - A line is there whole or not at all. A line that was torn by the end of the
//     process or by a full disk is cut off when the log is opened again, or, if
//     the disk has room again, before the next line.
//   - What [Log.Sync] has returned for is on the disk. All that wait at the same
//     time, for whichever logs, share one sync (group commit): the lines go into a
//     file of their own first, from where they are put into their logs if those
//     should lack them after a power cut. What nobody waits for is synced within a
//     second.
//   - A log whose middle cannot be read is never continued, and nothing in it is
//     thrown away: opening it is an error that names file and line.
//   - Thousands of logs need few open files; if there are none left in the process a
//     write waits for one, for a while.
//   - Two processes never write to one journal: [Open] takes a lock that ends with
//     the process, however that ends.
//   - Every failure is an [Error] that says what was tried with which file.
//
// A program that goes on where it was killed:
//
//	j, err := journal.Open(journal.Config{Dir: "run-7"})
//	…
//	defer j.Close()
//	log, lines, err := j.Log("agents/anna")
//	…                             // lines is what was there before
//	err = log.Append(step)        // written: survives a kill
//	err = log.Sync()              // on the disk: survives a power cut
package journal
