package chat

import "slices"

// A Joiner gives a caller that reads an answer chunk by chunk whole characters only.
// Some servers cut a character in two and send its halves in two chunks; decoded
// alone, each half is U+FFFD. An [Assembler] needs no Joiner. The zero value is ready
// for use, for one answer. It is not safe for concurrent use.
type Joiner struct {
	texts [cutTexts]string
	calls []openCall
	holds bool
}

// openCall is a tool call whose last piece ended within a character.
type openCall struct {
	index int
	id    string
	half  string
}

// maxOpenCalls bounds the calls with half a character that are remembered. No
// model writes so many at once.
const maxOpenCalls = 16

// Join removes half a character from the end of a text of ch and puts it before the
// next piece of the same text: of the content, the reasoning, the refusal, or the
// arguments of the same tool call. It changes ch, and costs almost nothing if no
// character is cut. The chunk may have no text left, so call [Chunk.Output] before
// Join to learn whether the model is at work.
func (j *Joiner) Join(ch *Chunk) {
	if ch.Whole {
		*j = Joiner{} // it has all that was held back
		ch.cut = nil
		return
	}
	if !j.holds && ch.cut == nil && !slices.ContainsFunc(ch.ToolCalls, isCut) {
		return
	}
	for i, s := range [cutTexts]*string{&ch.Content, &ch.Reasoning, &ch.Refusal} {
		*s, j.texts[i] = rejoin(j.texts[i], *s, ch.loose(i))
	}
	ch.cut = nil
	for i := range ch.ToolCalls {
		j.call(&ch.ToolCalls[i])
	}
	j.holds = len(j.calls) > 0 || j.texts != [cutTexts]string{}
}

func isCut(d ToolCallDelta) bool { return d.cut != "" }

func (j *Joiner) call(d *ToolCallDelta) {
	if d.Arguments == "" {
		return
	}
	var held openCall
	if i := j.find(d); i >= 0 {
		held = j.calls[i]
		j.calls = slices.Delete(j.calls, i, i+1)
	}
	loose := d.cut
	d.cut = ""
	if len(j.calls) == maxOpenCalls && held.half == "" {
		return // the half stays U+FFFD
	}
	text, half := rejoin(held.half, d.Arguments, loose)
	d.Arguments = text
	if half != "" {
		j.calls = append(j.calls, openCall{d.Index, firstOf(d.ID, held.id), half})
	}
}

// find returns the call that a piece belongs to: the one of its index, or the
// only one if the piece begins within a character and its index is new.
func (j *Joiner) find(d *ToolCallDelta) int {
	for i := range j.calls {
		c := &j.calls[i]
		if c.index == d.Index && (closesHalf(d.cut) || c.id == "" || d.ID == "" || c.id == d.ID) {
			return i
		}
	}
	if closesHalf(d.cut) && len(j.calls) == 1 {
		return 0
	}
	return -1
}

// rejoin returns a piece with what was held back before it, and what is to be
// held back of it.
func rejoin(held, s, loose string) (text, half string) {
	if s == "" || held == "" && loose == "" {
		return s, held
	}
	all := held + firstOf(loose, s)
	n := len(all) - openHalf(all)
	text, _ = tidy(all[:n])
	return text, all[n:]
}

// Rest returns a chunk with U+FFFD for each half whose other half never came, or nil
// if there is none, as in most answers. Call it when the answer has ended.
func (j *Joiner) Rest() *Chunk {
	if !j.holds {
		return nil
	}
	ch := &Chunk{}
	for i, s := range [cutTexts]*string{&ch.Content, &ch.Reasoning, &ch.Refusal} {
		*s, _ = tidy(j.texts[i])
	}
	for _, c := range j.calls {
		text, _ := tidy(c.half)
		ch.ToolCalls = append(ch.ToolCalls, ToolCallDelta{Index: c.index, ID: c.id, Arguments: text})
	}
	*j = Joiner{}
	return ch
}
