package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

const barWidth = 30

// progress writes lines for people. On a terminal the line of a run is redrawn in place, elsewhere it is repeated rarely.
type progress struct {
	out      io.Writer
	terminal bool
}

func newProgress(file *os.File) *progress {
	return &progress{out: file, terminal: term.IsTerminal(int(file.Fd()))}
}

func (p *progress) say(format string, args ...any) { fmt.Fprintf(p.out, format+"\n", args...) }

// follow shows how a run gets on until the returned function is called.
func (p *progress) follow(run string, total int, counts func() tally) (done func()) {
	interval := 3 * time.Second
	if p.terminal {
		interval = 200 * time.Millisecond
	}
	started := time.Now()
	draw := func(end string) {
		t := counts()
		filled := barWidth * t.decided() / max(total, 1)
		line := fmt.Sprintf("%-8s [%s%s] %d/%d decided, %d bound, %d unschedulable, %.0f/s", run,
			strings.Repeat("=", filled), strings.Repeat(" ", barWidth-filled), t.decided(), total, t.bound, t.unschedulable,
			float64(t.decided())/time.Since(started).Seconds())
		if p.terminal {
			line = "\r\x1b[K" + line
		}
		fmt.Fprint(p.out, line, end)
	}
	end := "\n"
	if p.terminal {
		end = ""
	}
	stop := make(chan struct{})
	var routine sync.WaitGroup
	routine.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				draw(end)
			case <-stop:
				return
			}
		}
	})
	return func() {
		close(stop)
		routine.Wait()
		draw("\n")
	}
}
