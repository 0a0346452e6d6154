package dispatcher

// Pattern returns the order in which priorities with the given weights are reserved: one digit (0 high, 1 normal, 2
// low) per turn. It repeats. Any sequence of as many turns as the sum of the weights contains each priority exactly as
// often as its weight.
//
// It is smooth weighted round robin: in each turn every priority gains its weight in credit, and the one with the most
// credit pays the sum of the weights for its turn. After that many turns all credits are zero again.
func Pattern(weights [3]int) string {
	sum := weights[0] + weights[1] + weights[2]
	var credit [3]int
	pattern := make([]byte, sum)
	for turn := range pattern {
		best := 0
		for i := range weights {
			credit[i] += weights[i]
			if credit[i] > credit[best] {
				best = i
			}
		}
		credit[best] -= sum
		pattern[turn] = byte('0' + best)
	}
	return string(pattern)
}
