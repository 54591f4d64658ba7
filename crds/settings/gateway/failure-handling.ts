import { choice, defaulted, duration, flag, integer, object, Type } from '../schema.ts'
import { failureDefaults } from './defaults.ts'

const NO_REPORTS = {
  refused: 'pods send no reports: the operator asks them and writes the status when it changes; leave it out',
}

const { circuitBreaker: breakerDefaults } = failureDefaults

const circuitBreaker = object('Stops calling a backend that keeps failing.', {
  enabled: defaulted(flag('gateway', 'Use a circuit breaker.', { default: breakerDefaults.enabled })),
  failureThreshold: defaulted(
    integer('gateway', 'Failures that open it.', { minimum: 1, default: breakerDefaults.failureThreshold }),
  ),
  timeout: defaulted(
    duration('gateway', 'How long it stays open.', {
      default: breakerDefaults.timeout,
      rules: [{ rule: "duration(self) >= duration('1s')", message: 'timeout must be at least 1s' }],
    }),
  ),
})

export const failureHandling = object(
  'What happens when backends fail.',
  {
    healthCheckInterval: defaulted(
      duration('gateway', 'Time between two probes of a backend.', { default: failureDefaults.healthCheckInterval }),
    ),
    healthCheckTimeout: defaulted(
      duration('gateway', 'Longest wait for a probe.', { default: failureDefaults.healthCheckTimeout }),
    ),
    statusReportingInterval: defaulted(duration(NO_REPORTS, 'Time between two reports.', { default: '30s' })),
    unhealthyThreshold: defaulted(
      integer('gateway', 'Failed probes that make a backend unhealthy.', {
        minimum: 1,
        default: failureDefaults.unhealthyThreshold,
      }),
    ),
    partialFailureMode: defaulted(
      choice('gateway', 'Whether a list fails when one backend fails.', ['fail', 'best_effort'], { default: 'fail' }),
    ),
    circuitBreaker: Type.Optional(circuitBreaker),
  },
  {
    rules: [
      {
        rule: 'duration(self.healthCheckTimeout) < duration(self.healthCheckInterval)',
        message: 'healthCheckTimeout must be shorter than healthCheckInterval',
      },
    ],
  },
)
