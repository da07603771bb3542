"""How the examples of DStreams run: until Ctrl-C, or for so many batches, as their tests want it."""

from pyspark.streaming.listener import StreamingListener


class Batches(StreamingListener):
    """Counts the batches that have ended."""

    ended = 0

    def onBatchCompleted(self, *_):
        self.ended += 1


def run(ssc, batches=None):
    """Start the context, and stop it after so many batches; the error of a batch that fails is raised here."""
    counter = Batches()
    ssc.addStreamingListener(counter)
    ssc.start()
    try:
        while not ssc.awaitTerminationOrTimeout(0.2):
            if batches is not None and counter.ended >= int(batches):
                break
    except KeyboardInterrupt:
        print("stopping")
    ssc.stop(stopSparkContext=False, stopGraceFully=True)  # what is planned is done, and committed
