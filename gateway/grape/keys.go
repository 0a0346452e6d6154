package grape

import "github.com/wakecall/wakecall/conf"

// keys are the gateway's configuration keys.
var keys = []conf.Key{
	{Path: "gateways.grape.addr", Type: conf.Gateway(),
		Help: "Address for Grape clients, [HOST:]PORT. Grape's default is 9521."},
	{Path: "gateways.grape.web_addr", Type: conf.Gateway().With("gateways.grape.accounts"),
		Help: "Address of the API of Grape's web page (login, tubes, statistics), [HOST:]PORT. Grape's default is " +
			"9595."},
	{Path: "gateways.grape.accounts", Type: conf.Path(),
		Help: "File with the accounts that may log in at web_addr, one USER:PASSWORD per line."},
}
