package agentloop_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/agentloop/journal"
	"github.com/neverhang/neverhang/chat"
)

// What a call came to that the watchdog ended alone is known when the run goes on:
// the model has seen it.
func TestACallThatTheWatchdogEndedIsRecorded(t *testing.T) {
	for _, effect := range []agentloop.Effect{agentloop.EffectOnce, agentloop.EffectNone, agentloop.EffectIdempotent} {
		t.Run(fmt.Sprint(effect), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDisk(nil)
				ran := 0
				run := func(m agentloop.Model) agentloop.Result {
					j := openJournal(t, d)
					defer j.Close()
					post := tool(t, "post", func(ctx context.Context) (string, error) {
						ran++
						<-ctx.Done()
						return "", errors.New("gave up before anything was sent")
					})
					post.Timeout, post.Effect = -1, effect
					res, _ := runAgent(t, agentloop.Config{Model: m, Tools: []agentloop.Tool{post}},
						agentloop.GroupConfig{Journal: j, OnStall: agentloop.StallRetry})
					return res
				}
				first := run(play(calls(call("p", "post", `{}`)), calls(call("q", "unknown", `{}`)), fails(errWrongKey)))
				require.Equal(t, agentloop.Failed, first.Outcome)
				require.Contains(t, first.Messages[2].Content, "gave up")
				second := run(play(says("end")))
				assert.Equal(t, agentloop.Done, second.Outcome, second.Err)
				var want []agentloop.Uncertainty
				if effect == agentloop.EffectOnce { // what it says when it was stopped for want of life is no proof
					want = append(want, agentloop.Uncertainty{Agent: "a", Tool: "post", CallID: "p", Arguments: "{}"})
				}
				assert.Equal(t, want, first.Uncertain)
				assert.Equal(t, want, second.Uncertain)
				assert.Equal(t, first.ToolCalls, second.ToolCalls)
				assert.Equal(t, transcript(first.Messages), transcript(second.Messages[:len(first.Messages)]))
				assert.Equal(t, 1, ran)
			})
		})
	}
}

// So is what those came to that a fatal error of another call has ended.
func TestCallsBesideAFatalOneAreRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(nil)
		run := func(m agentloop.Model) agentloop.Result {
			j := openJournal(t, d)
			defer j.Close()
			began := make(chan struct{})
			post := tool(t, "post", func(ctx context.Context) (string, error) {
				close(began)
				<-ctx.Done()
				return "", errors.New("taken back")
			})
			disk := tool(t, "disk", func(context.Context) (string, error) {
				<-began
				return "", agentloop.Fatal(errors.New("broken"))
			})
			res, _ := runAgent(t, agentloop.Config{Model: m, Tools: []agentloop.Tool{post, disk}}, agentloop.GroupConfig{Journal: j})
			return res
		}
		first := run(play(calls(call("p", "post", `{}`), call("d", "disk", `{}`))))
		require.Equal(t, agentloop.Failed, first.Outcome)
		second := run(play(says("end")))
		assert.Empty(t, second.Uncertain)
		assert.Contains(t, second.Messages[2].Content, "taken back")
	})
}

// A log in which a call has no result though the conversation went on, as older
// programs left them, is played and not added to: what is new would count for
// other calls.
func TestNothingIsWrittenWhileTheJournalIsPlayed(t *testing.T) {
	d := newDisk(nil)
	cfg := func(m agentloop.Model, posted *int) agentloop.Config {
		return agentloop.Config{Model: m, Tools: []agentloop.Tool{
			tool(t, "post", func(context.Context) (string, error) { *posted++; return "posted", nil }),
		}}
	}
	posted := 0
	j := openJournal(t, d)
	runAgent(t, cfg(play(calls(call("p", "post", `{}`)), calls(call("q", "post", `{}`)), fails(errWrongKey)), &posted), agentloop.GroupConfig{Journal: j})
	require.NoError(t, j.Close())
	var kept []string
	for _, line := range strings.SplitAfter(string(d.files["agents/a.jsonl"]), "\n") {
		if !strings.Contains(line, `"k":"result"`) || !strings.Contains(line, `"id":"p"`) {
			kept = append(kept, line)
		}
	}
	d = newDisk(map[string][]byte{"agents/a.jsonl": []byte(strings.Join(kept, ""))})
	posted = 0
	var last agentloop.Result
	for range 3 {
		j = openJournal(t, d)
		last, _ = runAgent(t, cfg(play(fails(errWrongKey)), &posted), agentloop.GroupConfig{Journal: j})
		require.NoError(t, j.Close())
		require.Len(t, last.Uncertain, 1)
		assert.Equal(t, "p", last.Uncertain[0].CallID)
		assert.Equal(t, "posted", last.Messages[4].Content)
	}
	assert.Zero(t, posted)
	assert.NotContains(t, string(d.files["agents/a.jsonl"]), `"uncertain"`)
}

// What belongs to an answer is told by its number, not by where it stands.
func TestResultsAreFoundByTheNumberOfTheirAnswer(t *testing.T) {
	d := newDisk(nil)
	n := 0
	run := func(m agentloop.Model) agentloop.Result {
		j := openJournal(t, d)
		defer j.Close()
		res, _ := runAgent(t, agentloop.Config{Model: m, Tools: []agentloop.Tool{
			tool(t, "post", func(context.Context) (string, error) { n++; return fmt.Sprint("post ", n), nil }),
		}}, agentloop.GroupConfig{Journal: j})
		return res
	}
	first := run(play(calls(call("p", "post", `{}`)), calls(call("q", "post", `{}`)), fails(errWrongKey)))
	lines := strings.SplitAfter(string(d.files["agents/a.jsonl"]), "\n")
	var moved string
	for i, line := range lines {
		if strings.Contains(line, `"text":"post 1"`) {
			moved, lines[i] = line, ""
		}
	}
	require.Contains(t, moved, `"n":1`)
	d.files["agents/a.jsonl"] = []byte(strings.Join(lines, "") + moved)
	second := run(play(says("end")))
	assert.Equal(t, transcript(first.Messages), transcript(second.Messages[:len(first.Messages)]))
	assert.Equal(t, 2, n)
}

// No two calls have the same key, even if the agent was started over. It is the same
// again when the run goes on.
func TestCallIDsAreUniqueOverFreshRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(nil)
		seen := map[string]string{} // what was done by call
		run := func(m agentloop.Model) agentloop.Result {
			j := openJournal(t, d)
			defer j.Close()
			put, err := agentloop.NewTool("put", "", func(ctx context.Context, in struct {
				Text string `json:"text"`
			}) (string, error) {
				id := agentloop.CallID(ctx)
				assert.Empty(t, seen[id], "%s is the key of it and of %s", id, in.Text)
				seen[id] = in.Text
				return "put", nil
			})
			require.NoError(t, err)
			put.Sequential = true
			res, _ := runAgent(t, agentloop.Config{Model: m, Tools: []agentloop.Tool{put}}, agentloop.GroupConfig{Journal: j,
				Restart: map[agentloop.Outcome]agentloop.RestartPolicy{agentloop.Failed: {Max: 1, Fresh: true}}})
			return res
		}
		put := func(id, text string) chat.ToolCall { return call(id, "put", fmt.Sprintf(`{"text":%q}`, text)) }
		first := run(play(calls(put("", "one"), put("x", "two")), fails(errWrongKey), calls(put("", "three"), put("x", "four")), fails(errWrongKey)))
		require.Equal(t, agentloop.Failed, first.Outcome)
		require.Len(t, seen, 4)
		second := run(play(calls(put("", "five")), says("end")))
		assert.Equal(t, agentloop.Done, second.Outcome, second.Err)
		assert.Len(t, seen, 5)
		assert.Equal(t, transcript(first.Messages), transcript(second.Messages[:len(first.Messages)]))
	})
}

// An agent that had come to its end goes on with new patience when it is run again:
// what it failed for may be mended. So it does the next time as well.
func TestWhoHadEndedGoesOnWhenRunAgain(t *testing.T) {
	errs := map[string]func(mended bool) (string, error){
		"fatal":  func(bool) (string, error) { return "", agentloop.Fatal(errors.New("folder is not writable")) },
		"failed": func(bool) (string, error) { return "", errors.New("no space left on device") },
	}
	save := calls(call("", "save", `{}`))
	begin := []step{calls(call("", "read", `{}`)), calls(call("", "write", `{}`))}
	for name, c := range map[string]struct {
		first, second, third []step
		save                 string
		was                  agentloop.Outcome
	}{
		"stalled by silence": {append(begin, says("")), []step{says("no")}, []step{save}, "", agentloop.Stalled},
		"stalled by repeats": {append(begin, save), []step{save}, []step{save}, "failed", agentloop.Stalled},
		"a fatal tool":       {append(begin, save), []step{save}, []step{save}, "fatal", agentloop.Failed},
		"a model that fails": {append(begin, fails(errWrongKey)), []step{fails(errWrongKey)}, []step{save}, "", agentloop.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDisk(nil)
			asked := 0
			run := func(script []step, mended bool) agentloop.Result {
				j := openJournal(t, d)
				defer j.Close()
				m := play(script...)
				cfg, _ := author(t, m)
				for i := range cfg.Tools {
					if x := &cfg.Tools[i]; x.Name == "save" && !mended && c.save != "" {
						x.Run = func(context.Context, raw) (string, error) { return errs[c.save](mended) }
					}
				}
				res, _ := runAgent(t, cfg, agentloop.GroupConfig{Journal: j})
				asked = len(m.requests())
				return res
			}
			first := run(c.first, false)
			require.Equal(t, c.was, first.Outcome, first.Err)
			second := run(c.second, false)
			require.Equal(t, c.was, second.Outcome, second.Err)
			require.Positive(t, asked)
			assert.Equal(t, first.Rounds, second.Replayed)
			third := run(c.third, true)
			assert.Equal(t, agentloop.Done, third.Outcome, third.Err)
			assert.Equal(t, 1, asked)
			assert.Equal(t, second.Rounds, third.Replayed)
			assert.Equal(t, transcript(second.Messages), transcript(third.Messages[:len(second.Messages)]))
			fourth := run([]step{fails(errWrongKey)}, true)
			assert.Equal(t, agentloop.Done, fourth.Outcome, fourth.Err)
			assert.Zero(t, asked)
		})
	}
}

// A step whose call may have taken effect is not demanded of the model; called again
// of its own will, it is taken as any other.
func TestAnUncertainStepIsNotForced(t *testing.T) {
	for name, c := range map[string]struct {
		script []step
		posts  int
		want   agentloop.Outcome
	}{
		"it leaves it":       {[]step{calls(call("", "look", `{}`)), says("It is there.")}, 0, agentloop.Stalled},
		"it does it anew":    {[]step{calls(call("", "look", `{}`)), calls(call("", "post", `{}`))}, 1, agentloop.Done},
		"it is told, thinks": {[]step{says("hm"), says("well"), calls(call("", "post", `{}`))}, 1, agentloop.Done},
	} {
		t.Run(name, func(t *testing.T) {
			d, posts := newDisk(nil), 0
			run := func(m agentloop.Model) agentloop.Result {
				j := openJournal(t, d)
				defer j.Close()
				look := tool(t, "look", result("page"))
				look.Effect = agentloop.EffectNone
				res, _ := runAgent(t, agentloop.Config{Model: m, Tools: []agentloop.Tool{look,
					tool(t, "post", func(context.Context) (string, error) { posts++; return "ok", nil })},
					Progression: agentloop.Progression{{Name: "post", Tools: []string{"post"}}}}, agentloop.GroupConfig{Journal: j})
				return res
			}
			run(play(calls(call("x", "post", `{}`))))
			log := string(d.files["agents/a.jsonl"])
			log = log[:strings.Index(log, `{"k":"result"`)]
			d, posts = newDisk(map[string][]byte{"agents/a.jsonl": []byte(log)}), 0
			m := play(c.script...)
			res := run(m)
			assert.Equal(t, c.want, res.Outcome, res.Err)
			assert.Equal(t, c.posts, posts)
			assert.Zero(t, res.Forced)
			for _, req := range m.requests() {
				assert.Len(t, req.Tools, 2)
				for _, msg := range req.Messages {
					assert.NotContains(t, msg.Content, "call post now")
				}
			}
			if c.want == agentloop.Stalled {
				assert.Contains(t, m.last(chat.RoleUser)[0], "nobody knows whether post took effect. Find out")
			}
		})
	}
}

// A disk that hangs over the log of the run holds no agent up: that log is told, not
// asked.
func TestAHungLogOfTheRunHoldsNobodyUp(t *testing.T) {
	for _, grace := range []time.Duration{0, 300 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			d := &runHangs{newDisk(nil), make(chan struct{})}
			defer close(d.gate)
			j, err := journal.Open(journal.Config{FS: d, SyncEvery: -1})
			require.NoError(t, err)
			rep := runGroup(t, t.Context(), agentloop.GroupConfig{
				Agents: many(t, 3, agentloop.Config{Model: agentloop.ModelFunc(says("done"))}), Journal: j, MaxParallel: 1, Grace: grace})
			assert.True(t, rep.Done(), "%v", rep.Counts)
			assert.Equal(t, time.Second, rep.Duration, "it waits for the end of the log as long as for a draft")
		})
	}
}

// runHangs is a disk that hangs after the first write to the log of the run.
type runHangs struct {
	*disk
	gate chan struct{}
}

type runHangsFile struct {
	journal.File
	writes int
	gate   chan struct{}
}

func (d *runHangs) Open(name string) (journal.File, error) {
	f, err := d.disk.Open(name)
	if name == "run.jsonl" {
		f = &runHangsFile{File: f, gate: d.gate}
	}
	return f, err
}

func (f *runHangsFile) WriteAt(p []byte, at int64) (int, error) {
	if f.writes++; f.writes > 1 {
		<-f.gate
	}
	return f.File.WriteAt(p, at)
}

// A disk that is full when an agent is about to begin is the same as one that is
// full later; a journal that is another's is not.
func TestAFullDiskAtTheBeginningIsErrJournal(t *testing.T) {
	for name, c := range map[string]struct {
		disk *disk
		room int
		want bool
	}{
		"full":      {newDisk(nil), 150, true},
		"room":      {newDisk(nil), -1, false},
		"another's": {newDisk(map[string][]byte{"agents/a.jsonl": []byte("{\"k\":\"begin\",\"v\":2,\"agent\":\"b\"}\n")}), -1, false},
		"torn":      {newDisk(map[string][]byte{"agents/a.jsonl": []byte("{\"k\":\n{}\n")}), -1, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.disk.room = c.room
				j := openJournal(t, c.disk)
				defer j.Close()
				m := play(says("x"))
				res, _ := runAgent(t, agentloop.Config{Model: m}, agentloop.GroupConfig{
					Journal: j, Restart: map[agentloop.Outcome]agentloop.RestartPolicy{agentloop.Failed: {Max: 1}},
				})
				assert.Equal(t, c.want, errors.Is(res.Err, agentloop.ErrJournal), "%v", res.Err)
				assert.Equal(t, name == "room", res.Outcome == agentloop.Done)
				if name != "room" {
					assert.Empty(t, m.requests(), "nothing is asked that could not be kept")
					assert.Zero(t, res.Restarts)
				}
			})
		})
	}
}
