package grape

import "github.com/wakecall/wakecall/conf"

// keys are the gateway's keys of the configuration.
var keys = []conf.Key{
	{Path: "gateways.grape.addr", Type: conf.Gateway(),
		Help: "Address for clients of Grape, [HOST:]PORT. Its own port is 9521."},
	{Path: "gateways.grape.web_addr", Type: conf.Gateway().With("gateways.grape.accounts"),
		Help: "Address of what Grape's web page calls (login, tubes and their statistics), [HOST:]PORT. Its own port " +
			"is 9595."},
	{Path: "gateways.grape.accounts", Type: conf.Path(),
		Help: "File of lines USER:PASSWORD with the accounts that may log in at web_addr."},
}
