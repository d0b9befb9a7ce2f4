package agentloop_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/agentloop/journal"
	"github.com/neverhang/neverhang/chat"
)

// A disk keeps files in memory, and tells of each write.
type disk struct {
	mu      *sync.Mutex
	files   map[string][]byte
	onWrite func()
	room    int // bytes left; negative: no end
	hang    chan struct{}
}

func newDisk(files map[string][]byte) *disk {
	d := &disk{mu: new(sync.Mutex), files: map[string][]byte{}, room: -1}
	for name, data := range files {
		d.files[name] = slices.Clone(data)
	}
	return d
}

func (d *disk) Open(name string) (journal.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.files[name]; !ok {
		d.files[name] = nil
	}
	return &diskFile{d: d, name: name}, nil
}
func (d *disk) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

// with lets the disk and the world change one after the other only, so that a
// moment is one.
func (d *disk) with(w *world) *disk {
	w.mu = d.mu
	return d
}

// moment returns what is left if the process ends now.
func (d *disk) moment(w *world) *moment {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &moment{maps.Clone(d.files), w.cloneLocked()} // contents are never written to
}

type diskFile struct {
	d    *disk
	name string
	at   int
}

func (f *diskFile) Read(p []byte) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	n := copy(p, f.d.files[f.name][f.at:])
	if f.at += n; n == 0 {
		return 0, io.EOF
	}
	return n, nil
}
func (f *diskFile) WriteAt(p []byte, at int64) (int, error) {
	if f.d.hang != nil {
		<-f.d.hang
	}
	f.d.mu.Lock()
	n := len(p)
	if f.d.room >= 0 {
		n = min(n, f.d.room)
		f.d.room -= n
	}
	data := f.d.files[f.name]
	f.d.files[f.name] = slices.Concat(data[:at], p[:n], data[min(len(data), int(at)+n):]) // moments share the old one
	f.d.mu.Unlock()
	if n < len(p) {
		return n, syscall.ENOSPC
	}
	if f.d.onWrite != nil {
		f.d.onWrite()
	}
	return n, nil
}
func (f *diskFile) Truncate(size int64) error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	f.d.files[f.name] = slices.Clone(f.d.files[f.name][:size])
	return nil
}
func (f *diskFile) Sync() error  { return nil }
func (f *diskFile) Close() error { return nil }

func openJournal(t testing.TB, d *disk) *journal.Journal {
	t.Helper()
	j, err := journal.Open(journal.Config{FS: d, SyncEvery: -1})
	require.NoError(t, err)
	return j
}

// A world is what outlives the process: what its tools have done to it.
type world struct {
	mu       *sync.Mutex
	mails    map[string]int // by the agent and the call
	saved    map[string]string
	onEffect func()
}

func newWorld() *world {
	return &world{mu: new(sync.Mutex), mails: map[string]int{}, saved: map[string]string{}}
}

func (w *world) clone() *world {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cloneLocked()
}

func (w *world) cloneLocked() *world {
	return &world{mu: new(sync.Mutex), mails: maps.Clone(w.mails), saved: maps.Clone(w.saved)}
}

func (w *world) effect(f func()) {
	w.mu.Lock()
	f()
	w.mu.Unlock()
	if w.onEffect != nil {
		w.onEffect()
	}
}

// agent returns an agent that reads, sends two mails and looks something up,
// writes with its mind elsewhere, and saves: its text is in memory alone until
// then.
func (w *world) agent(t testing.TB, name string, asked *[]int, mu *sync.Mutex) *agentloop.Agent {
	return w.playing(t, name, asked, mu, []step{
		calls(call("", "read", `{"i":1}`)),
		calls(call("", "mail", `{"to":"a"}`), call("", "read", `{"i":2}`), call("", "mail", `{"to":"b"}`)),
		says("I am done."),
		calls(call("", "append", `{"text":"one"}`), call("", "append", `{"text":"two"}`)),
		calls(call("", "save", `{}`)),
	})
}

// playing is agent with another script.
func (w *world) playing(t testing.TB, name string, asked *[]int, mu *sync.Mutex, script []step) *agentloop.Agent {
	model := agentloop.ModelFunc(func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
		if err := strict(req.Messages); err != nil {
			return nil, err
		}
		turn := 0
		for _, m := range req.Messages {
			if m.Role == chat.RoleAssistant && m.Content != "(no answer)" {
				turn++
			}
		}
		mu.Lock()
		*asked = append(*asked, turn)
		mu.Unlock()
		return script[min(turn, len(script)-1)](ctx, req)
	})
	var text []string // in memory
	add := func(_ context.Context, in struct {
		Text string `json:"text"`
	}) (string, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		text = append(text, in.Text)
		return fmt.Sprintf("%d parts", len(text)), nil
	}
	read, err := agentloop.NewTool("read", "", func(_ context.Context, in struct {
		I int `json:"i"`
	}) (string, error) {
		return fmt.Sprintf("page %d", in.I), nil
	})
	require.NoError(t, err)
	read.Effect = agentloop.EffectNone
	mail, err := agentloop.NewTool("mail", "", func(ctx context.Context, in struct {
		To string `json:"to"`
	}) (string, error) {
		w.effect(func() { w.mails[name+" "+agentloop.CallID(ctx)+" "+in.To]++ })
		return "sent", nil
	})
	require.NoError(t, err)
	appends, err := agentloop.NewTool("append", "", add)
	require.NoError(t, err)
	appends.Effect, appends.Sequential = agentloop.EffectNone, true
	appends.Replay = func(_ context.Context, args raw, result string) error {
		got, err := appends.Run(context.Background(), args)
		if err == nil && got != result {
			err = fmt.Errorf("%q, then it was %q", got, result)
		}
		return err
	}
	save, err := agentloop.NewTool("save", "", func(ctx context.Context, _ none) (string, error) {
		w.effect(func() { w.saved[name] = strings.Join(text, " ") })
		return "saved", nil
	})
	require.NoError(t, err)
	save.Effect = agentloop.EffectIdempotent
	return newAgent(t, agentloop.Config{Name: name, Model: model, Tools: []agentloop.Tool{read, mail, appends, save},
		Progression: agentloop.Progression{{Name: "read", Tools: []string{"read"}}, {Name: "write", Tools: []string{"append"}}, {Name: "save", Tools: []string{"save"}}}})
}

// moment is what is left if the process ends there.
type moment struct {
	files map[string][]byte
	world *world
}

// Wherever the process ends, a run with its journal goes on: no effect happens
// twice, none is lost but those that are told of as uncertain, and nothing that was
// answered is asked for again.
func TestAKilledRunGoesOnFromAnywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		agents := []string{"Anna", "b / ü"}
		var mu sync.Mutex
		run := func(files map[string][]byte, w *world, watch func(d *disk)) (*agentloop.Report, []int) {
			d := newDisk(files).with(w)
			if watch != nil {
				watch(d)
			}
			j := openJournal(t, d)
			var asked []int
			var list []*agentloop.Agent
			for _, name := range agents {
				list = append(list, w.agent(t, name, &asked, &mu))
			}
			rep := runGroup(t, t.Context(), agentloop.GroupConfig{Agents: list, Journal: j, Rand: func() float64 { return 0 }})
			require.NoError(t, j.Close())
			return rep, asked
		}
		var moments []moment
		w := newWorld()
		rep, asked := run(nil, w, func(d *disk) {
			shot := func() {
				mu.Lock()
				defer mu.Unlock()
				moments = append(moments, *d.moment(w))
			}
			d.onWrite, w.onEffect = shot, shot
		})
		require.True(t, rep.Done(), "%v %v", rep.Results[0].Err, rep.Results[1].Err)
		require.Len(t, asked, 2*5)
		require.Greater(t, len(moments), 30)
		whole := rep

		uncertain := 0
		for i, m := range moments {
			w := m.world.clone()
			rep, asked := run(m.files, w, nil)
			require.True(t, rep.Done(), "moment %d: %v %v", i, rep.Results[0].Err, rep.Results[1].Err)
			for key, n := range w.mails {
				require.Equal(t, 1, n, "moment %d: %s", i, key)
			}
			for k, name := range agents {
				require.Equal(t, "one two", w.saved[name], "moment %d", i)
				res := rep.Results[k]
				assert.Equal(t, whole.Results[k].Steps, res.Steps)
				assert.Equal(t, whole.Results[k].Rounds, res.Rounds)
				assert.Equal(t, whole.Results[k].Nudges, res.Nudges)
				assert.Equal(t, whole.Results[k].ToolCalls, res.ToolCalls)
				if len(res.Uncertain) == 0 {
					require.Equal(t, transcript(whole.Results[k].Messages), transcript(res.Messages), "moment %d", i)
				}
			}
			assert.Len(t, asked, 10-rep.Results[0].Replayed-rep.Results[1].Replayed, "what was answered is not asked again")
			// A mail that was not sent is one that may have been, and is told of.
			require.GreaterOrEqual(t, len(w.mails)+len(rep.Uncertain), 4, "moment %d", i)
			uncertain += len(rep.Uncertain)
			for _, u := range rep.Uncertain {
				assert.Equal(t, "mail", u.Tool)
				assert.Contains(t, u.Arguments, `"to"`)
			}
		}
		assert.Positive(t, uncertain)
	})
}

// The same if the process is killed again and again.
func TestAKilledRunGoesOnAfterManyKills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		w := newWorld()
		files := map[string][]byte{}
		kills := 0
		for {
			d := newDisk(files).with(w)
			var left *moment
			writes := 0
			d.onWrite = func() {
				mu.Lock()
				defer mu.Unlock()
				if writes++; writes == 3 {
					left = d.moment(w)
				}
			}
			j := openJournal(t, d)
			var asked []int
			a := w.agent(t, "a", &asked, &mu)
			rep := runGroup(t, t.Context(), agentloop.GroupConfig{Agents: []*agentloop.Agent{a}, Journal: j})
			require.NoError(t, j.Close())
			if left == nil || kills > 100 {
				require.True(t, rep.Done(), rep.Results[0].Err)
				break
			}
			files, w = left.files, left.world
			kills++
		}
		assert.Greater(t, kills, 5)
		assert.Equal(t, "one two", w.saved["a"])
		for key, n := range w.mails {
			assert.Equal(t, 1, n, key)
		}
	})
}

// The same for whatever agents do, under faults, at random moments.
func TestKillsAtRandomLoseNothing(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	for round := range uint64(25) {
		synctest.Test(t, func(t *testing.T) {
			luck := rand.New(rand.NewPCG(seed, round))
			at := fmt.Sprintf("seed %d, round %d", seed, round)
			script := []step{calls(call("", "read", `{"i":0}`))}
			var want []string // what is appended, in order
			for i := range 2 + luck.IntN(6) {
				if luck.IntN(6) == 0 {
					script = append(script, says(fmt.Sprint("hm ", i)))
					continue
				}
				var list []chat.ToolCall
				for k := range 1 + luck.IntN(4) {
					tool := []string{"read", "mail", "append", "unknown"}[luck.IntN(4)]
					args := fmt.Sprintf(`{"i":%d}`, 10*i+k)
					switch tool {
					case "mail":
						args = fmt.Sprintf(`{"to":"%d"}`, 10*i+k)
					case "append":
						args = fmt.Sprintf(`{"text":"%d"}`, 10*i+k)
						want = append(want, fmt.Sprint(10*i+k))
					}
					list = append(list, call([]string{"", "x"}[luck.IntN(2)], tool, args))
				}
				script = append(script, calls(list...))
			}
			script = append(script, calls(call("", "append", `{"text":"end"}`), call("", "save", `{}`)))
			want = append(want, "end")

			var mu sync.Mutex
			w, files := newWorld(), map[string][]byte(nil)
			for kill := 0; ; kill++ {
				d := newDisk(files).with(w)
				var left *moment
				ahead := 1 + luck.IntN(12)
				shot := func() {
					mu.Lock()
					defer mu.Unlock()
					if ahead--; ahead == 0 {
						left = d.moment(w)
						if luck.IntN(3) == 0 { // in the middle of a line
							for name, data := range left.files {
								if len(data) > 0 && luck.IntN(3) == 0 {
									last := data[:len(data)-1]
									cut := strings.LastIndexByte(string(last), '\n') + 1
									if !strings.Contains(string(data[cut:]), `"k":"intent"`) { // that is on the disk
										left.files[name] = data[:cut+luck.IntN(len(data)-cut)]
									}
								}
							}
						}
					}
				}
				d.onWrite, w.onEffect = shot, shot
				faulty := slices.Clone(script)
				for i, s := range faulty {
					failed := luck.IntN(4) > 0
					faulty[i] = func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
						if !failed {
							failed = true
							return nil, passing{}
						}
						return s(ctx, req)
					}
				}
				var asked []int
				j := openJournal(t, d)
				rep := runGroup(t, t.Context(), agentloop.GroupConfig{
					Agents: []*agentloop.Agent{w.playing(t, "a", &asked, &mu, faulty)}, Journal: j})
				require.NoError(t, j.Close())
				if left != nil && kill < 30 {
					files, w = left.files, left.world
					continue
				}
				require.True(t, rep.Done(), "%s: %v", at, rep.Results[0].Err)
				break
			}
			for key, n := range w.mails {
				require.Equal(t, 1, n, "%s: %s", at, key)
			}
			require.Equal(t, strings.Join(want, " "), w.saved["a"], at)
		})
	}
}

// What is done is done: neither the model nor a tool hears of it again, even if
// the agent would go another way today.
func TestFinishedAgentsAreNotRunAgain(t *testing.T) {
	d := newDisk(nil)
	run := func(m *strictServer, nudges int) agentloop.Result {
		j := openJournal(t, d)
		defer j.Close()
		cfg, desk := author(t, m)
		cfg.Nudges = nudges
		res, _ := runAgent(t, cfg, agentloop.GroupConfig{Journal: j})
		assert.LessOrEqual(t, len(strings.Fields(desk.log())), 3)
		return res
	}
	first := run(play(says("hm"), calls(call("", "read", "{}")), calls(call("", "write", "{}")), calls(call("", "save", "{}"))), 0)
	require.Equal(t, agentloop.Done, first.Outcome)
	size := len(d.files["agents/author.jsonl"])
	for _, nudges := range []int{0, -1} {
		m := play(fails(errWrongKey))
		again := run(m, nudges)
		assert.Equal(t, agentloop.Done, again.Outcome, again.Err)
		assert.Empty(t, m.requests())
		assert.Equal(t, 4, again.Replayed)
		assert.Equal(t, first.Steps, again.Steps)
		assert.Len(t, d.files["agents/author.jsonl"], size, "nothing is added")
	}
}

// An agent that ended in another way goes on: with a new question if the model
// had failed, with more budget if that was used up.
func TestWhoWasNotDoneGoesOn(t *testing.T) {
	read := calls(call("", "read", "{}"))
	for name, c := range map[string]struct {
		first, second []step
		set           func(c *agentloop.Config, second bool)
		was           agentloop.Outcome
		log           string
	}{
		"after a failure": {[]step{read, fails(errWrongKey)}, []step{calls(call("", "write", "{}")), calls(call("", "save", "{}"))},
			func(*agentloop.Config, bool) {}, agentloop.Failed, "read|write save"},
		"after a fatal tool": {[]step{read, calls(call("", "disk", "{}"))}, []step{calls(call("", "write", "{}")), calls(call("", "save", "{}"))},
			func(*agentloop.Config, bool) {}, agentloop.Failed, "read|write save"},
		"with more rounds": {[]step{read}, []step{calls(call("", "write", "{}")), calls(call("", "save", "{}"))},
			func(c *agentloop.Config, second bool) {
				c.MaxRounds = 1
				if second {
					c.MaxRounds = 3
				}
			}, agentloop.Exhausted, "read|write save"},
		"after a stop": {[]step{read, says("no"), says("no")}, []step{calls(call("", "write", "{}")), calls(call("", "save", "{}"))},
			func(c *agentloop.Config, second bool) {
				c.Nudges, c.NarrowedTries, c.ForcedTries = 1, -1, -1
				if second {
					c.Nudges = 2
				}
			}, agentloop.Stalled, "read|write save"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDisk(nil)
			var logs []string
			for i, script := range [][]step{c.first, c.second} {
				j := openJournal(t, d)
				m := play(script...)
				cfg, desk := author(t, m)
				c.set(&cfg, i == 1)
				cfg.Tools = append(cfg.Tools, tool(t, "disk", func(context.Context) (string, error) {
					return "", agentloop.Fatal(errors.New("the disk is gone"))
				}))
				res, _ := runAgent(t, cfg, agentloop.GroupConfig{Journal: j})
				require.NoError(t, j.Close())
				logs = append(logs, desk.log())
				if i == 0 {
					assert.Equal(t, c.was, res.Outcome)
					continue
				}
				assert.Equal(t, agentloop.Done, res.Outcome, res.Err)
				assert.Len(t, m.requests(), 2)
			}
			assert.Equal(t, c.log, strings.Join(logs, "|"))
		})
	}
}

// Restarts, refusals and summaries are part of what is played again.
func TestWhatChangedTheCourseIsPlayedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := strings.Repeat("y", 1500)
		n := 0
		model := func() *windowed {
			m := &windowed{window: 2000, perToken: 4, counts: true}
			m.strictServer = play(func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
				if strings.HasPrefix(req.Messages[0].Content, "Sum up") {
					return says("a summary")(ctx, req)
				}
				n++
				switch {
				case n == 4:
					return nil, errWrongKey // and started again
				case n == 9:
					return nil, errors.New("killed") // by a policy that has no more restarts
				case n == 12:
					return says("ok")(ctx, req)
				}
				return calls(call("", "write", fmt.Sprintf(`{"n":%d,"text":"%s"}`, n, long)))(ctx, req)
			})
			return m
		}
		d := newDisk(nil)
		run := func(m *windowed) agentloop.Result {
			j := openJournal(t, d)
			defer j.Close()
			res, _ := runAgent(t, agentloop.Config{Model: m, Tools: (&desk{}).tools(t), Summarize: true, Request: chat.Request{MaxTokens: 100}},
				agentloop.GroupConfig{Journal: j, Restart: map[agentloop.Outcome]agentloop.RestartPolicy{agentloop.Failed: {Max: 1}}})
			return res
		}
		first := run(model())
		require.Equal(t, agentloop.Failed, first.Outcome)
		require.Positive(t, first.Shrinks)
		m := model()
		second := run(m)
		require.Equal(t, agentloop.Done, second.Outcome, second.Err)
		assert.Equal(t, first.Rounds, second.Replayed)
		assert.Equal(t, first.Shrinks, second.Shrinks-(second.Shrinks-first.Shrinks))
		sent := m.requests()[0].Messages
		assert.Equal(t, transcript(first.Messages), transcript(sent[:len(first.Messages)]), "it goes on with what it ended with")
	})
}

func TestJournalsThatAreNotTheOne(t *testing.T) {
	begin := `{"k":"begin","t":"2026-01-02T03:04:05Z","v":1,"agent":"author","conversation":"0123"}` + "\n"
	for name, c := range map[string]struct {
		file, data string
		want       string
		is         error
	}{
		"of another agent":      {"agents/author.jsonl", strings.Replace(begin, "author", "other", 1), `journal agents/author: line 1: it is that of agent "other"`, nil},
		"of another task":       {"agents/author.jsonl", begin, "line 1: the agent had another task then, or other messages to begin with", nil},
		"of a later version":    {"agents/author.jsonl", `{"k":"begin","t":17,"v":3}` + "\n", "line 1: journal of another format: version 3, this program knows up to 2", agentloop.ErrJournalVersion},
		"of no version":         {"agents/author.jsonl", `{"k":"begin","t":"2026-01-02T03:04:05Z","agent":"author"}` + "\n", "journal of another format: version 0", agentloop.ErrJournalVersion},
		"of something else":     {"agents/author.jsonl", `{"hello":"world"}` + "\n", `journal of another format: an entry "", want "begin"`, agentloop.ErrJournalVersion},
		"broken in the middle":  {"agents/author.jsonl", begin + "{\n" + begin, "journal: read agents/author.jsonl, line 2: cannot be read", journal.ErrCorrupt},
		"a run of another form": {"run.jsonl", `{"k":"run","v":3}` + "\n", `journal run: line 1: journal of another format: an entry "run" of version 3`, agentloop.ErrJournalVersion},
		"no run":                {"run.jsonl", `{"k":"begin","v":1}` + "\n", `an entry "begin" of version 1`, agentloop.ErrJournalVersion},
		"a broken run":          {"run.jsonl", "{\n{}\n", "journal: read run.jsonl, line 1: cannot be read", journal.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDisk(map[string][]byte{c.file: []byte(c.data)})
			j := openJournal(t, d)
			defer j.Close()
			m := play(says("never asked"))
			cfg, _ := author(t, m)
			res, _ := runAgent(t, cfg, agentloop.GroupConfig{Journal: j, Restart: map[agentloop.Outcome]agentloop.RestartPolicy{agentloop.Failed: {Max: 3}}})
			assert.Equal(t, agentloop.Failed, res.Outcome)
			assert.Zero(t, res.Restarts, "never without its journal")
			assert.ErrorContains(t, res.Err, c.want)
			if c.is != nil {
				assert.ErrorIs(t, res.Err, c.is)
			}
			assert.Empty(t, m.requests())
			assert.Equal(t, c.data, string(d.files[c.file]), "nothing is written to it")
		})
	}
}

// A full disk stops what it would leave unrecorded, and nothing that is recorded
// is lost.
func TestAFullDiskEndsTheAgentBeforeItActs(t *testing.T) {
	var mu sync.Mutex
	for room := 0; ; room += 13 {
		w := newWorld()
		d := newDisk(nil)
		d.room = room
		j := openJournal(t, d)
		var asked []int
		rep := runGroup(t, t.Context(), agentloop.GroupConfig{Agents: []*agentloop.Agent{w.agent(t, "a", &asked, &mu)}, Journal: j})
		res := rep.Results[0]
		_ = j.Close()
		if res.Outcome == agentloop.Done && res.JournalErr == nil {
			break
		}
		if res.Outcome != agentloop.Done {
			require.Equal(t, agentloop.Failed, res.Outcome, "room for %d bytes", room)
			require.ErrorIs(t, res.Err, syscall.ENOSPC, "room for %d bytes", room)
		}
		// There is room again.
		d.room = -1
		j = openJournal(t, d)
		rep = runGroup(t, t.Context(), agentloop.GroupConfig{Agents: []*agentloop.Agent{w.agent(t, "a", &asked, &mu)}, Journal: j})
		require.NoError(t, j.Close())
		require.True(t, rep.Done(), "room for %d bytes: %v", room, rep.Results[0].Err)
		require.Equal(t, "one two", w.saved["a"])
		for key, n := range w.mails {
			require.Equal(t, 1, n, key)
		}
		require.GreaterOrEqual(t, len(w.mails)+len(rep.Uncertain), 2)
	}
}

// A disk that hangs is abandoned like a server that does.
func TestADiskThatHangsHoldsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(nil)
		j := openJournal(t, d)
		hang := make(chan struct{})
		m := play(func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
			d.hang = hang
			return calls(call("", "read", "{}"))(ctx, req)
		})
		cfg, _ := author(t, m)
		start := time.Now()
		rep := runGroup(t, t.Context(), agentloop.GroupConfig{Agents: []*agentloop.Agent{newAgent(t, cfg)}, Journal: j, Timeout: time.Minute})
		assert.LessOrEqual(t, time.Since(start), time.Minute+100*time.Millisecond)
		assert.NotEqual(t, agentloop.Done, rep.Results[0].Outcome)
		close(hang)
		time.Sleep(time.Second)
		require.NoError(t, j.Close())
	})
}

func TestAJournalOnARealDisk(t *testing.T) {
	dir := t.TempDir()
	var mu sync.Mutex
	var asked []int
	w := newWorld()
	for range 2 {
		j, err := journal.Open(journal.Config{Dir: dir})
		require.NoError(t, err)
		rep := runGroup(t, t.Context(), agentloop.GroupConfig{Agents: []*agentloop.Agent{w.agent(t, "a", &asked, &mu)}, Journal: j})
		require.NoError(t, j.Close())
		require.True(t, rep.Done(), rep.Results[0].Err)
	}
	assert.Len(t, asked, 5)
	for _, name := range []string{"run.jsonl", "agents/a.jsonl"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		assert.NotEmpty(t, data)
	}
	// Two groups cannot have the same agent's log at the same time.
	j, err := journal.Open(journal.Config{Dir: dir})
	require.NoError(t, err)
	defer j.Close()
	_, _, err = j.Log("agents/a")
	require.NoError(t, err)
	rep := runGroup(t, t.Context(), agentloop.GroupConfig{Agents: []*agentloop.Agent{w.agent(t, "a", &asked, &mu)}, Journal: j})
	assert.ErrorContains(t, rep.Results[0].Err, "it is open already")
}
