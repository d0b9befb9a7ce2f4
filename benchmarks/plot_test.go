package benchmarks

import (
	"fmt"
	"strings"

	"github.com/neverhang/neverhang/internal/fakeserver/engine"
)

// A panel is one plot: useful answers a second over time.
type panel struct {
	title string
	lines []line
}

type line struct {
	name string
	y    []float64
}

// What is drawn, in this order, and how.
var strokes = []struct{ name, color, style string }{
	{"no limit, an SDK's retries", "#9aa0a6", "1.2"},
	{"fixed limit 20", "#c58af9", "1.2"},
	{"failsafe-go, start 4, its breaker, retries", "#f29900", "1.2"},
	{"Gradient2, start 8", "#d93025", "1.2"},
	{"best fixed limit", "#1a73e8", "1.4"},
	{"neverhang", "#0d8043", "2"},
}

// add adds a line, smoothed over sixteen seconds.
func (p *panel) add(name string, r engine.Record) {
	const span = 8
	n := int(engine.SettingTime / r.Bin)
	y := make([]float64, 0, n)
	for i := range n {
		sum, k := 0.0, 0
		for j := max(0, i-span); j < min(n, i+span); j++ {
			if j < len(r.Bins) {
				sum += float64(r.Bins[j].Useful)
			}
			k++
		}
		y = append(y, sum/float64(k)/r.Bin.Seconds())
	}
	p.lines = append(p.lines, line{name, y})
}

// draw puts panels into an SVG, four in a row.
func draw(panels []panel) string {
	const columns, width, height, gap, head = 4, 260, 130, 34, 64
	rows := (len(panels) + columns - 1) / columns
	w, h := columns*(width+gap)+gap, head+rows*(height+2*gap)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui, sans-serif" font-size="11">`+"\n", w, h)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", w, h)
	fmt.Fprintf(&b, `<text x="%d" y="20" font-size="14">useful answers a second over six minutes, 64 agents</text>`+"\n", gap)
	x := gap
	for _, s := range strokes {
		fmt.Fprintf(&b, `<path d="M%d 40h22" stroke="%s" stroke-width="%s" fill="none"/><text x="%d" y="44">%s</text>`+"\n", x, s.color, s.style, x+28, s.name)
		x += 50 + 6*len(s.name)
	}
	for i, p := range panels {
		x, y := gap+i%columns*(width+gap), head+gap/2+i/columns*(height+2*gap)
		top := 1.0
		for _, l := range p.lines {
			for _, v := range l.y {
				top = max(top, v)
			}
		}
		fmt.Fprintf(&b, `<g transform="translate(%d %d)"><text y="-6" font-weight="600">%s</text>`+"\n", x, y, p.title)
		fmt.Fprintf(&b, `<path d="M0 0v%dh%d" stroke="#bbb" fill="none"/>`, height, width)
		for v := 2.0; v < top; v += 2 {
			at := height - v/top*height
			fmt.Fprintf(&b, `<path d="M0 %.1fh%d" stroke="#eee"/><text x="-4" y="%.1f" text-anchor="end" fill="#666">%.0f</text>`, at, width, at+4, v)
		}
		for m := 1; m <= 6; m++ {
			fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle" fill="#666">%d min</text>`, m*width/6, height+14, m)
		}
		for _, s := range strokes {
			for _, l := range p.lines {
				if l.name != s.name {
					continue
				}
				var path strings.Builder
				for j := 0; j < len(l.y); j += 3 {
					letter := "L"
					if j == 0 {
						letter = "M"
					}
					fmt.Fprintf(&path, "%s%.0f %.1f", letter, float64(j)/float64(len(l.y))*width, height-l.y[j]/top*height)
				}
				fmt.Fprintf(&b, `<path d="%s" stroke="%s" stroke-width="%s" fill="none" stroke-linejoin="round"/>`+"\n", path.String(), s.color, s.style)
			}
		}
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}
