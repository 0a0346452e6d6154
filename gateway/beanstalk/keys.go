package beanstalk

import "github.com/wakecall/wakecall/conf"

const keyMaxJob = "gateways.beanstalk.max_job_size"

// keys are the gateway's configuration keys.
var keys = []conf.Key{
	{Path: "gateways.beanstalk.addr", Type: conf.Gateway(),
		Help: "Address for beanstalkd clients, [HOST:]PORT. beanstalkd's default is 11300."},
	{Path: keyMaxJob, Default: "65535", Type: conf.Size("1", "16MiB"),
		Help: "Largest body of a job: beanstalkd's -z. A larger put gets JOB_TOO_BIG. Each connection may use twice " +
			"this memory."},
}
