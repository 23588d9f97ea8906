// The loads of `windlass bench sim` in ns-3: the same networks, the same transfers, so that packet-hops per second can be
// compared. What is known to slow ns-3 down is left out: no traffic control but where marks are needed, no tracing,
// routes by nix-vector. Prints one JSON object; only Simulator::Run() is timed.
//
//     speed five-flows | incast | fat-tree

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/nix-vector-routing-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

using namespace ns3;

static const uint32_t MSS_BYTES = 1448;
static const uint16_t PORT = 80;

struct Net {
	NetDeviceContainer devices;
	uint32_t links = 0;
	bool marks = false;

	// A link; what leaves `to` or `from` queues in `queue`. Returns the address of `to`.
	Ipv4Address connect(Ptr<Node> from, Ptr<Node> to, const char *rate, const char *delay, const char *queue)
	{
		PointToPointHelper wire;
		wire.SetDeviceAttribute("DataRate", StringValue(rate));
		wire.SetChannelAttribute("Delay", StringValue(delay));
		// with marks, the queue is the discipline's, and the device holds one packet
		wire.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue(marks ? "1p" : queue));
		NetDeviceContainer pair = wire.Install(from, to);
		if (marks) {
			TrafficControlHelper control;
			control.SetRootQueueDisc("ns3::RedQueueDisc", "MaxSize", StringValue(queue), "MinTh",
						 DoubleValue(65), "MaxTh", DoubleValue(65), "QW", DoubleValue(1),
						 "UseEcn", BooleanValue(true), "UseHardDrop", BooleanValue(false),
						 "Gentle", BooleanValue(false), "MeanPktSize", UintegerValue(1500));
			control.Install(pair);
		}
		devices.Add(pair);
		Ipv4AddressHelper addresses;
		char base[32];
		snprintf(base, sizeof(base), "10.%u.%u.0", links / 256, links % 256);
		links++;
		addresses.SetBase(base, "255.255.255.0");
		Ipv4InterfaceContainer ends = addresses.Assign(pair);
		if (!marks) {
			TrafficControlHelper none;
			none.Uninstall(pair);
		}
		return ends.GetAddress(1);
	}

	// Packets that devices took over: each crosses the link, or dies on its queue.
	uint64_t hops() const
	{
		uint64_t hops = 0;
		for (uint32_t i = 0; i < devices.GetN(); i++) {
			auto device = DynamicCast<PointToPointNetDevice>(devices.Get(i));
			hops += device->GetQueue()->GetTotalReceivedPackets();
			hops += device->GetQueue()->GetTotalDroppedPackets();
		}
		return hops;
	}
};

static void install_stacks(const NodeContainer &nodes)
{
	Ipv4NixVectorHelper nix;
	InternetStackHelper stack;
	stack.SetRoutingHelper(nix);
	stack.SetIpv6StackInstall(false);
	stack.Install(nodes);
}

static void transfer(Ptr<Node> from, Ipv4Address to, uint64_t bytes, uint16_t port)
{
	BulkSendHelper source("ns3::TcpSocketFactory", InetSocketAddress(to, port));
	source.SetAttribute("MaxBytes", UintegerValue(bytes));
	source.SetAttribute("SendSize", UintegerValue(MSS_BYTES));
	source.Install(from).Start(Seconds(0));
}

static ApplicationContainer sinks;

static void receive(Ptr<Node> at, uint16_t port)
{
	PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), port));
	ApplicationContainer installed = sink.Install(at);
	installed.Start(Seconds(0));
	sinks.Add(installed);
}

static uint64_t received_bytes()
{
	uint64_t bytes = 0;
	for (uint32_t i = 0; i < sinks.GetN(); i++)
		bytes += DynamicCast<PacketSink>(sinks.Get(i))->GetTotalRx();
	return bytes;
}

// `connections` of `senders` hosts to one receiver.
static void many_to_one(Net &net, uint32_t senders, uint32_t connections, uint64_t bytes, const char *rate,
			const char *delay, const char *queue)
{
	NodeContainer hosts, ends;
	hosts.Create(senders);
	ends.Create(2);
	install_stacks(hosts);
	install_stacks(ends);
	Ipv4Address to = net.connect(ends.Get(0), ends.Get(1), rate, delay, queue);
	for (uint32_t i = 0; i < senders; i++)
		net.connect(hosts.Get(i), ends.Get(0), "1Gbps", "50us", "1000000p");
	receive(ends.Get(1), PORT);
	for (uint32_t i = 0; i < connections; i++)
		transfer(hosts.Get(i % senders), to, bytes, PORT);
}

static void fat_tree(Net &net, uint32_t k, uint64_t bytes)
{
	const char *rate = "10Gbps", *delay = "5us", *queue = "233p";
	uint32_t half = k / 2, hosts_n = k * half * half;
	NodeContainer cores, aggrs, edges, hosts;
	cores.Create(half * half);
	aggrs.Create(k * half);
	edges.Create(k * half);
	hosts.Create(hosts_n);
	for (const NodeContainer *all : {&cores, &aggrs, &edges, &hosts})
		install_stacks(*all);
	std::vector<Ipv4Address> addresses;
	for (uint32_t pod = 0; pod < k; pod++) {
		for (uint32_t a = 0; a < half; a++) {
			Ptr<Node> aggr = aggrs.Get(pod * half + a);
			for (uint32_t c = 0; c < half; c++)
				net.connect(aggr, cores.Get(a * half + c), rate, delay, queue);
			for (uint32_t e = 0; e < half; e++)
				net.connect(edges.Get(pod * half + e), aggr, rate, delay, queue);
		}
		for (uint32_t h = 0; h < half * half; h++) {
			uint32_t edge = pod * half + h / half, host = pod * half * half + h;
			addresses.push_back(net.connect(edges.Get(edge), hosts.Get(host), rate, delay, queue));
		}
	}
	for (uint32_t i = 0; i < hosts_n; i++) {
		receive(hosts.Get(i), PORT);
		transfer(hosts.Get(i), addresses[(i + hosts_n / 2) % hosts_n], bytes, PORT);
	}
}

int main(int argc, char **argv)
{
	std::string load = argc > 1 ? argv[1] : "";
	Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(MSS_BYTES));
	Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
	Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(4 << 20));
	Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(6 << 20));
	Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));
	Config::SetDefault("ns3::TcpL4Protocol::SocketType", StringValue("ns3::TcpLinuxReno"));
	// with SACK, flows of ns-3 3.37 stall after timeouts and send a third of their data within a minute
	Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(false));
	Net net;
	if (load == "five-flows") {
		many_to_one(net, 5, 5, 50000000, "1Gbps", "50us", "100p");
	} else if (load == "incast") {
		many_to_one(net, 40, 1000, 524288, "10Gbps", "25us", "1048576B");
	} else if (load == "fat-tree") {
		Config::SetDefault("ns3::TcpL4Protocol::SocketType", StringValue("ns3::TcpDctcp"));
		Config::SetDefault("ns3::TcpSocketBase::UseEcn", StringValue("On"));
		net.marks = true;
		fat_tree(net, 8, 10000000);
	} else {
		fprintf(stderr, "usage: speed five-flows | incast | fat-tree\n");
		return 2;
	}
	Simulator::Stop(Seconds(60));
	auto start = std::chrono::steady_clock::now();
	Simulator::Run();
	std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
	printf("{\"load\":\"%s\",\"hops\":%llu,\"received_bytes\":%llu,\"seconds\":%.3f,\"hops_per_s\":%.0f}\n",
	       load.c_str(), (unsigned long long)net.hops(), (unsigned long long)received_bytes(), seconds.count(),
	       net.hops() / seconds.count());
	Simulator::Destroy();
	return 0;
}
