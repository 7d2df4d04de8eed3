# One conversation by Net::Stomp: net_stomp.pl PORT NAME. Prints what it saw, a line each.
use strict;
use warnings;
use Net::Stomp;

my ($port, $name) = @ARGV;
binmode STDOUT, ':raw';

sub client {
    my $stomp = Net::Stomp->new({ hostname => '127.0.0.1', port => $port, reconnect_on_fork => 0 });
    my $connected = $stomp->connect({ login => 'guest', passcode => 'guest' });
    print 'connected ', $connected->command, "\n";
    return $stomp;
}

my $stomp = client();
for my $number (1 .. 3) {
    $stomp->send_with_receipt({ destination => "/queue/$name", body => "work $number", persistent => 'true',
        'x-app' => 'perl' }) or die 'no receipt';
}
print "receipts\n";
$stomp->subscribe({ destination => "/queue/$name", ack => 'client', id => '0' });
for my $number (1 .. 3) {
    my $frame = $stomp->receive_frame({ timeout => 30 }) or die 'no message';
    print $frame->body, ' ', $frame->headers->{'x-app'}, "\n";
    $stomp->ack({ frame => $frame }) if $number < 3;
}
$stomp->disconnect;

$stomp = client();
$stomp->subscribe({ destination => "/queue/$name", ack => 'auto', id => '0' });
my $frame = $stomp->receive_frame({ timeout => 30 }) or die 'no message';
print $frame->body, ' redelivered ', $frame->headers->{redelivered}, "\n";
$stomp->send_transactional({ destination => "/queue/$name", bytes_message => 1, body => join('', map { chr } 0 .. 255) })
    or die 'not committed';
$frame = $stomp->receive_frame({ timeout => 30 }) or die 'no message';
print 'bytes ', ($frame->body eq join('', map { chr } 0 .. 255) ? 'intact' : 'changed'), "\n";
$stomp->disconnect;
