package fakeserver

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/neverhang/neverhang/chat"
)

// An Author is a model that writes articles about the messages of a session.
// Its Reply is a [Script].
//
// It plays the part from the conversation alone: it finds the messages to
// read in the first user message ("messages 12 to 14"), reads them with
// read_message, writes an article that quotes and sums up what it read with
// write, adds notes with append, calls save and ends with a short text. It
// calls only tools that it is offered, and of several forms of arguments the
// one that the tool's schema asks for. A tool that it is forced to call it
// calls; errors and nudges it heeds. To any other conversation it gives a
// short answer.
//
// What it says follows from the seed, the agent and the round: asked again, it
// says the same. The one exception is a bad habit: an answer that was given in
// full and yet asked for again was of no use, so the second time there is none.
type Author struct {
	// Habits are the mistakes it makes; the zero value means none. A mistake
	// that it is told of is not made again at once.
	Habits Habits
	Seed   uint64

	// TokensPerSecond is how fast it talks. Zero or less means as fast as it
	// can.
	TokensPerSecond float64
}

// Reply returns the author's next message in a conversation.
func (a Author) Reply(r *Request) Step {
	if r.Chat == nil || len(r.Chat.Messages) == 0 {
		return Error(http.StatusBadRequest, "invalid_request_error", "", "messages: want at least one")
	}
	s := readScene(r.Chat)
	p := part{author: a, scene: s, agent: r.Agent, luck: luckOf(a.Seed, "author "+r.Agent, s.round)}
	reply := p.play(r.Asked)
	if a.TokensPerSecond > 0 {
		reply = Slowly(time.Duration(float64(pieceTokens)/a.TokensPerSecond*float64(time.Second)), reply)
	}
	return reply
}

// Say returns the author's next message to the body of a completion request,
// for servers with a timing of their own. It is nil for a body that is none.
func (a Author) Say(body []byte) *chat.Response {
	r := Request{Body: body}
	r.decode()
	if r.Chat == nil || len(r.Chat.Messages) == 0 {
		return nil
	}
	a.TokensPerSecond = 0
	// All that an author says comes in chunks, which a plain turn gathers.
	t := &turn{req: &r, ctx: context.Background(), plain: true, limit: math.MaxInt}
	_ = a.Reply(&r).play(t)
	return t.whole.Response()
}

// pieceTokens is about how many tokens there are in a piece of an author's
// output.
const pieceTokens = 8

// A part is what an author does in one round.
type part struct {
	author Author
	scene  *scene
	agent  string
	luck   *rand.Rand // of this agent and round
}

func (p *part) play(asked int) Step {
	tool := p.scene.next()
	h, luck := p.habit(tool, asked)
	switch h {
	case forgetSave:
		return p.say("The article is complete. It covers what was asked for.")
	case emptyAnswer:
		return Reply(Role(), End("stop"))
	case reasoningOnly:
		return p.think("I have to decide what to do next. There is a lot to take into account, and I am not sure yet.", End("stop"))
	case unknownTool:
		return p.call("tool_calls", invented(p.scene, luck), `{"path":"article.md"}`)
	case repeatCall:
		return p.call("tool_calls", p.scene.last.Name, p.scene.last.Arguments)
	case badArgs:
		return p.call("tool_calls", tool, spoiled(p.arguments(tool)[0], luck))
	case lengthCut:
		args := []rune(p.arguments(tool)[0])
		return p.call("length", tool, string(args[:(len(args)+1)/2]))
	}
	if tool == "" {
		return p.end()
	}
	return p.call("tool_calls", tool, p.arguments(tool)...)
}

// end is the author's last word.
func (p *part) end() Step {
	s := p.scene
	switch {
	case s.failures >= maxFailures:
		return p.say("I give up: the tool keeps failing.")
	case s.saved:
		return p.say(fmt.Sprintf("Done. The article on %s is saved.", p.subject()))
	case s.wrote:
		return p.say(fmt.Sprintf("The article on %s is written.", p.subject()))
	case len(s.readings) > 0:
		return p.say(writeArticle(s.readings))
	}
	return p.say("I have understood the task.")
}

func (p *part) subject() string {
	switch all := sources(p.scene.readings); len(all) {
	case 0:
		return "nothing"
	case 1:
		return fmt.Sprintf("message %d", all[0].index)
	default:
		return fmt.Sprintf("messages %d to %d", all[0].index, all[len(all)-1].index)
	}
}

// say ends a message that is text.
func (p *part) say(text string) Step {
	steps := []Step{Role()}
	for _, piece := range pieces(text) {
		steps = append(steps, Text(piece))
	}
	return Reply(append(steps, End("stop"))...)
}

// think is reasoning, and what follows it.
func (p *part) think(text string, then ...Step) Step {
	key := [...]string{"reasoning_content", "reasoning"}[luckOf(p.author.Seed, "key "+p.agent, 0).IntN(2)]
	steps := []Step{Role()}
	for _, piece := range pieces(text) {
		steps = append(steps, ReasoningAs(key, piece))
	}
	return Reply(append(steps, then...)...)
}

// call ends a message that calls a tool, once for each of the arguments.
func (p *part) call(finish, tool string, args ...string) Step {
	var steps []Step
	for i, a := range args {
		id := fmt.Sprintf("call_%08x%02d", luckOf(p.author.Seed, "call "+p.agent, p.scene.round).Uint32(), i)
		steps = append(steps, CallToolIn(len(pieces(a)), id, tool, a))
	}
	steps = append(steps, End(finish))
	about := fmt.Sprintf("I need %s now.", strings.ReplaceAll(tool, "_", " "))
	switch p.luck.IntN(3) {
	case 0:
		return p.think(about+" It is the next step of the work.", steps...)
	case 1:
		return Reply(append([]Step{Role(), Text(about)}, steps...)...)
	}
	return Reply(append([]Step{Role()}, steps...)...)
}

// pieces cuts a text into what comes in one chunk.
func pieces(text string) []string {
	return cutText(text, (len(text)+4*pieceTokens-1)/(4*pieceTokens))
}
