"""Registers event-time timers, and says what the context knows."""

from pyflink.common import Duration, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment


class Time(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return int(value[0])


class Remind(KeyedProcessFunction):
    def process_element(self, value, ctx: "KeyedProcessFunction.Context"):
        at = ctx.timestamp() + 2000
        ctx.timer_service().register_event_time_timer(at)
        ctx.timer_service().register_event_time_timer(at)
        if value[1] == "bob":
            ctx.timer_service().delete_event_time_timer(at)
        yield f"{ctx.get_current_key()} at {ctx.timestamp()}"

    def on_timer(self, timestamp: int, ctx: "KeyedProcessFunction.OnTimerContext"):
        yield f"timer of {ctx.get_current_key()} at {timestamp}"


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)

stream = env.from_collection(
    [(1000, "alice", 110.1), (4000, "bob", 30.2), (3000, "alice", 20.0), (2000, "bob", 53.1)],
    type_info=Types.TUPLE([Types.LONG(), Types.STRING(), Types.FLOAT()]),
)
strategy = WatermarkStrategy.for_bounded_out_of_orderness(
    Duration.of_seconds(2)
).with_timestamp_assigner(Time())
stream.assign_timestamps_and_watermarks(strategy).key_by(
    lambda value: value[1], key_type=Types.STRING()
).process(Remind(), output_type=Types.STRING()).print()
env.execute("event time timer")
