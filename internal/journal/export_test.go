package journal

// readError reads a line of an error file. Wakecall itself reads none.
func readError(line []byte) (ErrorLine, error) {
	var w errorWire
	ts, err := decodeLine(line, &w, &w.TS)
	return ErrorLine{TS: ts, Process: w.Process, Where: w.Where, Error: w.Error, Context: w.Context}, err
}
