package journal

import (
	"os"
	"time"
)

// OnSync replaces how files are synced.
func (j *Journal) OnSync(sync func(*os.File) error) {
	for _, s := range j.streams() {
		s.sync = sync
	}
}

// errorWire is an ErrorLine as it is in a file. Wakecall itself reads none.
type errorWire struct {
	TS      timestamp   `json:"ts"`
	Process string      `json:"process"`
	Where   string      `json:"where"`
	Error   string      `json:"error"`
	Context string      `json:"context"`
	Base64  base64Texts `json:",embed"`
}

// UnmarshalJSON reads a line of an error file.
func (l *ErrorLine) UnmarshalJSON(data []byte) error {
	var w errorWire
	if err := unmarshalLine(data, &w, &w.TS); err != nil {
		return err
	}
	*l = ErrorLine{
		TS: time.Time(w.TS), Process: w.Base64.or("process", w.Process), Where: w.Base64.or("where", w.Where),
		Error: w.Base64.or("error", w.Error), Context: w.Base64.or("context", w.Context),
	}
	return nil
}
