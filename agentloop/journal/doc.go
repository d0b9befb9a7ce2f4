// Package journal keeps logs of JSON lines that survive whatever ends the
// process: a kill, a crash, a full disk, a power cut.
//
// A [Journal] is the folder of one run, and a [Log] is one file in it, such as one
// for each agent. The package does not know what a line means; docs/journal.md of
// this module describes the lines of agentloop.
//
// # What it promises
//
//   - A line is there whole or not at all. A line that was torn by the end of the
//     process or by a full disk is cut off when the log is opened again, or before
//     the next line if the disk has room again.
//   - When [Log.Sync] has returned, the lines are on the disk. All calls that wait at
//     the same time, for whichever logs, share one sync (group commit): their lines
//     go into a common file first. After a power cut they are copied from there into
//     the logs that lack them. Lines that nobody waits for are synced within a second.
//   - A log with an unreadable line in its middle is never continued, and nothing in
//     it is thrown away: opening it is an error that names file and line.
//   - Thousands of logs need few open files. If the process has none left, a write
//     waits up to ten seconds for one.
//   - Two processes never write to one journal: [Open] takes a lock that ends with
//     the process, even if it is killed.
//   - [Journal.Close] returns within five seconds, even if the disk hangs.
//   - Only the owner can read a journal: it holds all that models and tools said.
//     Files get the mode 0600, folders 0700.
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
