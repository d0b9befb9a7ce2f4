package llmclient

import "time"

// A meter is the clocks of one attempt, as a function of what happened and
// when. It touches no clock itself: every method is told the time.
//
//	clock        begins                     begins anew           ends
//	Connect      connect                                          connected
//	Send         connected                  wrote                 sent
//	FirstOutput  sent (streamed)                                  output, finish
//	Gap          output                     output                finish
//	Silence      byte, if set; third ping   byte                  phase changes, finish
//	Attempt      start (plain)                                    finish
//	End          finish, error body
//	Call         start                      output (see there)    finish
type meter struct {
	bounds [clockCount]bound
	plain  bool // the answer is asked for whole

	phase      Phase
	phaseSince moment
	clocks     [clockCount]running

	bytes       int64
	outputs     int64
	firstByte   moment
	firstOutput moment
	lastOutput  moment
	lastByte    moment
	longestGap  time.Duration // between two outputs
	started     time.Time
	pings       int           // in this phase
	lastPing    moment        // in this phase
	pingGap     time.Duration // the longest between two pings of this phase
	paused      moment        // since when the consumer is not reading; zero if it is
	lent        bool          // paused because the SDK is being asked for more of its request
	refuted     bool          // output has come after a finish reason, which therefore proves nothing
	blind       bool          // the transport does not tell how the request goes on

	suspect int // the clock that is suspect, or -1

	heldUntil moment // default limits are extended until then
	heldAt    moment // when that was last noted
}

// running is a clock that has begun, if since is set.
type running struct {
	since moment
	told  bool // suspicion has been announced
	asked bool // evidence has been asked for
}

// An expiry is a clock that ran out, or one that became suspect.
type expiry struct {
	clock ClockName
	bound time.Duration
	phase Phase

	evidence string // why it was cut before its limit; empty if it was not
	orphan   bool   // the endpoint serves others: this is no failure of it
}

// start begins an attempt; the bounds have been set. traced says that the transport
// reports the progress of the request. Otherwise the wait for output begins at
// once, and anew with every piece that is read of the request, until a first report
// proves that the transport does report.
func (m *meter) start(at time.Time, plain, traced bool) {
	m.started = at
	now := m.moment(at)
	m.plain, m.phase, m.phaseSince, m.suspect = plain, PhaseConnect, now, -1
	m.begin(iCall, now)
	if plain {
		m.begin(iAttempt, now)
	}
	if !traced {
		m.blind = true
		m.sent(now)
	}
}

// see is told that the transport reports progress.
func (m *meter) see(now moment) {
	if m.blind && m.bytes == 0 && m.phase == PhaseFirstOutput {
		m.end(iFirstOutput)
		m.enter(PhaseConnect, now)
	}
	m.blind = false
}

func (m *meter) begin(i int, now moment) {
	m.clocks[i] = running{since: now}
	if m.suspect == i {
		m.suspect = -1
	}
}

func (m *meter) end(clocks ...int) {
	for _, i := range clocks {
		m.begin(i, never)
	}
}

func (m *meter) enter(p Phase, now moment) {
	if m.phase != p {
		m.phase, m.phaseSince = p, now
	}
}

func (m *meter) connect(now moment) {
	m.see(now)
	if m.phase == PhaseConnect && m.clocks[iConnect].since == never {
		m.begin(iConnect, now)
	}
}

func (m *meter) connected(now moment) {
	m.see(now)
	m.end(iConnect)
	if m.phase == PhaseConnect {
		m.enter(PhaseSend, now)
		m.begin(iSend, now)
	}
}

func (m *meter) wrote(now moment) {
	switch {
	case m.phase == PhaseSend:
		m.begin(iSend, now)
	case m.blind && m.phase == PhaseFirstOutput && !m.plain:
		m.begin(iFirstOutput, now)
	}
}

// sent is told that the request has been written, or that an answer has come, which
// implies it.
func (m *meter) sent(now moment) {
	if m.phase > PhaseSend {
		return
	}
	m.end(iConnect, iSend)
	m.enter(PhaseFirstOutput, now)
	if !m.plain {
		m.begin(iFirstOutput, now)
	}
}

// answered is told that the head of the answer has come.
func (m *meter) answered(now moment) {
	m.giveBack(now)
	m.sent(now)
	m.read(0, now)
}

// read is told that n bytes of the answer have come.
func (m *meter) read(n int, now moment) {
	m.bytes += int64(n)
	m.lastByte = now
	if m.firstByte == never {
		m.firstByte = now
	}
	if m.phase < PhaseEnd && (m.bounds[iSilence].set || m.clocks[iSilence].since != never) {
		m.begin(iSilence, now)
	}
}

// leastPing is the least time between two pings. Comments that are closer together
// are a greeting, padding, or one ping in several reads.
const leastPing = time.Second

// ping is told that the server has sent a sign of life without output.
func (m *meter) ping(now moment) {
	gap := now.Sub(m.lastPing)
	if m.phase >= PhaseEnd || m.pings > 0 && gap < leastPing {
		return
	}
	if m.pings > 0 {
		m.pingGap = max(m.pingGap, gap)
	}
	m.pings++
	m.lastPing = now
	b := &m.bounds[iSilence]
	if b.set || m.plain || m.pings < 3 {
		return // in a plain answer there is no first output at which pings would stop
	}
	b.limit = max(4*m.pingGap, silenceFloor)
	if !b.suspectSet {
		b.suspect = 2 * m.pingGap
	}
	m.begin(iSilence, now)
}

// output is told that the model wrote something.
func (m *meter) output(now moment) {
	if m.phase >= PhaseEnd {
		// The finish reason was not the end. Some servers send one with every piece.
		m.refuted = true
		m.end(iEnd)
	}
	if m.firstOutput == never {
		m.firstOutput = now
	}
	if !m.plain && m.outputs > 0 {
		m.longestGap = max(m.longestGap, now.Sub(m.clocks[iGap].since))
	}
	m.outputs++
	m.lastOutput = now
	if m.phase != PhaseOutput {
		m.end(iFirstOutput, iConnect, iSend)
		m.enter(PhaseOutput, now)
		// Many servers stop their pings at the first output.
		m.pings, m.pingGap = 0, 0
		if !m.bounds[iSilence].set {
			m.end(iSilence)
		}
	}
	if !m.plain {
		m.begin(iGap, now)
	}
	// Call counts the wait for the first output, and after that only the
	// present gap: what came between was progress.
	if m.clocks[iCall].since != never {
		m.begin(iCall, now.Add(-m.firstOutput.Sub(atStart)))
	}
}

// reasons is told that the model reasons: it may be silent for long.
func (m *meter) reasons() {
	if b := &m.bounds[iGap]; !b.set && b.limit < clockDefaults[iGap].Limit {
		b.limit = clockDefaults[iGap].Limit
	}
}

// finish is told that no more output is to come.
func (m *meter) finish(now moment) {
	if m.phase == PhaseEnd || m.refuted {
		return
	}
	m.end(iConnect, iSend, iFirstOutput, iGap, iSilence, iAttempt, iCall)
	m.enter(PhaseEnd, now)
	m.begin(iEnd, now)
}

// finishPerhaps is told of a finish reason that came before the first output or
// together with output. Some servers send one with every piece, so End is longer.
func (m *meter) finishPerhaps(now moment) {
	if b := &m.bounds[iEnd]; !b.set && b.limit > 0 {
		b.limit = max(b.limit, perhapsEnd)
	}
	m.finish(now)
}

const perhapsEnd = time.Minute

// streams is told that an answer that was asked for whole comes piece by piece.
func (m *meter) streams(now moment) {
	if !m.plain {
		return
	}
	m.plain = false
	m.end(iAttempt)
	if m.phase == PhaseFirstOutput {
		m.begin(iFirstOutput, now)
	}
}

// over is told that the answer itself says that it is over.
func (m *meter) over(now moment) {
	m.refuted = false
	m.finish(now)
}

// refused is told that the answer is an error whose body is being read.
func (m *meter) refused(now moment) {
	m.giveBack(now)
	m.sent(now)
	m.begin(iEnd, now)
}

// pause is told that nobody is waiting for the answer right now.
func (m *meter) pause(now moment) {
	if m.paused == never {
		m.paused = now
	}
}

// lend is told that the SDK is being asked for more of its request. The bytes before
// have been written to the network. Once an answer has begun, the call waits for the
// server unless the request goes on as well.
func (m *meter) lend(now moment) {
	m.wrote(now)
	switch {
	case m.paused != never:
	case m.firstByte == never && m.clocks[iEnd].since == never:
		m.lent = true
		m.pause(now)
	case m.phase == PhaseFirstOutput:
		m.headway(iFirstOutput, now)
	case m.phase == PhaseOutput:
		m.headway(iGap, now)
	}
}

// headway begins clock i anew, if it runs. The time before brought progress and does
// not count for Call.
func (m *meter) headway(i int, now moment) {
	since := m.clocks[i].since
	if since == never {
		return
	}
	m.begin(i, now)
	if c := &m.clocks[iCall]; c.since != never {
		c.since = c.since.Add(now.Sub(since))
	}
}

// giveBack is told that the SDK has answered the question of lend.
func (m *meter) giveBack(now moment) {
	if m.lent {
		m.lent = false
		m.resume(now)
	}
}

// resume is told that the consumer reads again. The clocks have stood still.
func (m *meter) resume(now moment) {
	if m.paused == never {
		return
	}
	away := now.Sub(m.paused)
	m.paused = never
	for i := range m.clocks {
		if c := &m.clocks[i]; c.since != never {
			c.since = c.since.Add(away)
		}
	}
	if m.lastPing != never {
		m.lastPing = m.lastPing.Add(away)
	}
}

// spent returns what the attempt has cost the call.
func (m *meter) spent(now moment) time.Duration {
	if m.paused != never {
		now = m.paused
	}
	if since := m.clocks[iCall].since; since != never {
		return now.Sub(since)
	}
	return 0
}

// awaited are the clocks that run while the call waits for the model.
var awaited = [...]int{iFirstOutput, iGap, iAttempt}

// asks returns the clock that has run for long enough to look for evidence,
// or -1.
func (m *meter) asks(now moment) int {
	if m.paused != never || m.phase >= PhaseEnd {
		return -1
	}
	for _, i := range awaited {
		if c := &m.clocks[i]; c.since != never && m.evident(i) && now.Sub(c.since) >= askAfter {
			return i
		}
	}
	return -1
}

const (
	// holdFor is how long one AdviceBusy counts.
	holdFor = 30 * time.Second

	// holdTimes is to how many times itself a default limit can be extended.
	holdTimes = 3
)

// hold is told that the server is known to be at work on this.
func (m *meter) hold(now moment) {
	i := m.asks(now)
	if i < 0 {
		return
	}
	since := m.clocks[i].since.Add(askAfter)
	if m.heldAt > since {
		since = m.heldAt
	}
	if d := now.Sub(since); d > 0 && d <= holdFor && m.clocks[iCall].since != never {
		m.clocks[iCall].since = m.clocks[iCall].since.Add(d)
	}
	m.heldAt, m.heldUntil = now, now.Add(holdFor)
}

// limit returns how long clock i may run at present.
func (m *meter) limit(i int) time.Duration {
	b, c := &m.bounds[i], &m.clocks[i]
	if b.set || b.limit == 0 || i != iFirstOutput && i != iGap && i != iAttempt {
		return b.limit
	}
	held := m.heldUntil.Sub(c.since)
	return max(b.limit, min(held, holdTimes*b.limit))
}

// due returns when check should next be called, or zero for never.
func (m *meter) due() moment {
	at := never
	if m.paused != never {
		return at
	}
	for i := range m.clocks {
		c, b := &m.clocks[i], &m.bounds[i]
		if c.since == never {
			continue
		}
		d := m.limit(i)
		if b.suspect > 0 && !c.told && (d <= 0 || b.suspect < d) {
			d = b.suspect
		}
		if m.evident(i) && !c.asked && (d <= 0 || askAfter < d) {
			d = askAfter
		}
		if d <= 0 {
			continue
		}
		if t := c.since.Add(d); at == never || t < at {
			at = t
		}
	}
	return at
}

// evident reports whether evidence may be gathered for clock i.
func (m *meter) evident(i int) bool {
	b := &m.bounds[i]
	return (i == iFirstOutput || i == iGap || i == iAttempt) && (b.limit > 0 || !b.set) && m.phase >= PhaseFirstOutput
}

// A finding is the result of a check.
type finding struct {
	told []expiry // clocks that have become suspect
	ask  bool     // it is time to look for evidence
	out  *expiry  // the clock that has run out, of several the first
}

// check looks at the clocks.
func (m *meter) check(now moment) (f finding) {
	if m.paused != never {
		return f
	}
	first := never
	for i := range m.clocks {
		c, b := &m.clocks[i], m.bounds[i]
		if c.since == never {
			continue
		}
		if d := m.limit(i); d > 0 {
			if t := c.since.Add(d); now >= t && (f.out == nil || t < first) {
				f.out, first = &expiry{clock: clockNames[i], bound: d, phase: m.phase}, t
			}
		}
		if b.suspect > 0 && !c.told && now >= c.since.Add(b.suspect) {
			c.told = true
			m.suspect = i
			f.told = append(f.told, expiry{clock: clockNames[i], bound: b.suspect, phase: m.phase})
		}
	}
	if i := m.asks(now); i >= 0 && !m.clocks[i].asked {
		m.clocks[i].asked = true
		f.ask = true
	}
	return f
}
