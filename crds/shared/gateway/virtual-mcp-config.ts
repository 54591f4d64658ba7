/** `spec.config` of a VirtualMCPServer, the settings of the gateway itself. */

import { gatewayAudit } from '../audit.ts'
import { passthroughHeaders } from '../headers.ts'
import { limits } from '../limits.ts'
import { objectRef } from '../references.ts'
import {
  choice,
  defaulted,
  duration,
  flag,
  integer,
  list,
  map,
  object,
  objectName,
  type Reader,
  Type,
  text,
} from '../schema.ts'
import { conflictResolutionConfig, toolShaping } from './aggregation.ts'
import { cors } from './cors.ts'
import { failureDefaults } from './failure-defaults.ts'
import { optimizer } from './optimizer.ts'
import { rateLimiting } from './rate-limits.ts'
import { plainSessionStorage } from './session-storage.ts'
import { incomingAuth, outgoingAuth, staticBackends, telemetry } from './virtual-mcp-native.ts'
import { workflows } from './workflow.ts'

/** Fields for which this resource has others: why they are refused, with what to set instead. */
const REPLACED = {
  statusReportingInterval: {
    refused: 'pods report nothing: the operator asks them and writes the status when it changes; leave it out',
  },
  metadata: { refused: 'nothing reads it; use labels and annotations in metadata of this object' },
  backends: { refused: 'backends are members of the group; use an MCPServerEntry with groupRef for each' },
  incomingAuth: { refused: 'use spec.incomingAuth, with an MCPOIDCConfig in oidcConfigRef' },
  outgoingAuth: { refused: 'use spec.outgoingAuth, with MCPExternalAuthConfigs in externalAuthConfigRef' },
  telemetry: { refused: 'use spec.telemetryConfigRef, with an MCPTelemetryConfig' },
} as const

const aggregation = object(
  'How the tools of all backends become one set.',
  {
    conflictResolution: defaulted(
      choice(
        'gateway',
        'What happens when two backends have a tool of the same name.',
        ['prefix', 'priority', 'manual'],
        { default: 'prefix' },
      ),
    ),
    conflictResolutionConfig: Type.Optional(conflictResolutionConfig('gateway', 'gateway')),
    defaultToolVisibility: defaulted(
      choice('gateway', 'Whether the tools of a backend that `tools` does not name are shown.', ['allow', 'deny'], {
        default: 'allow',
      }),
    ),
    excludeAllTools: Type.Optional(flag('gateway', 'Show no backend’s tools.', { default: false })),
    tools: Type.Optional(
      list(
        'What is shown of which backend.',
        object('A backend.', {
          workload: objectName('gateway', 'Name of the backend.'),
          ...toolShaping('gateway'),
          toolConfigRef: Type.Optional(objectRef('gateway', 'MCPToolConfig', 'Shared filter and overrides.')),
        }),
        { type: { map: ['workload'] } },
      ),
    ),
  },
  {
    rules: [
      {
        rule: "self.conflictResolution != 'priority' || (has(self.conflictResolutionConfig) && has(self.conflictResolutionConfig.priorityOrder) && size(self.conflictResolutionConfig.priorityOrder) > 0)",
        message: 'conflictResolution priority needs conflictResolutionConfig.priorityOrder',
      },
    ],
  },
)

const { circuitBreaker: breakerDefaults } = failureDefaults

const circuitBreaker = (readBy: Reader) =>
  object('Stops calling a backend that keeps failing.', {
    enabled: defaulted(flag(readBy, 'Use a circuit breaker.', { default: breakerDefaults.enabled })),
    failureThreshold: defaulted(
      integer(readBy, 'Failures that open it.', { minimum: 1, default: breakerDefaults.failureThreshold }),
    ),
    timeout: defaulted(
      duration(readBy, 'How long it stays open.', {
        default: breakerDefaults.timeout,
        rules: [{ rule: "duration(self) >= duration('1s')", message: 'timeout must be at least 1s' }],
      }),
    ),
  })

const failureHandling = (readBy: Reader) =>
  object(
    'What happens when backends fail.',
    {
      healthCheckInterval: defaulted(
        duration(readBy, 'Time between two probes of a backend.', { default: failureDefaults.healthCheckInterval }),
      ),
      healthCheckTimeout: defaulted(
        duration(readBy, 'Longest wait for a probe.', { default: failureDefaults.healthCheckTimeout }),
      ),
      statusReportingInterval: defaulted(
        duration(REPLACED.statusReportingInterval, 'Time between two reports.', { default: '30s' }),
      ),
      unhealthyThreshold: defaulted(
        integer(readBy, 'Failed probes that make a backend unhealthy.', {
          minimum: 1,
          default: failureDefaults.unhealthyThreshold,
        }),
      ),
      partialFailureMode: defaulted(
        choice(readBy, 'Whether a list fails when one backend does.', ['fail', 'best_effort'], { default: 'fail' }),
      ),
      circuitBreaker: Type.Optional(circuitBreaker(readBy)),
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

const operational = object('Timeouts, logging and failure handling.', {
  logLevel: Type.Optional(choice('gateway', 'Log level; info when left out.', ['debug', 'info', 'warn', 'error'])),
  timeouts: Type.Optional(
    object('Longest waits for backends.', {
      default: defaulted(duration('gateway', 'For every backend.', { default: '30s' })),
      perWorkload: Type.Optional(
        map('For single backends, by name.', duration('gateway', 'For this backend.'), { max: limits.members }),
      ),
    }),
  ),
  failureHandling: Type.Optional(failureHandling('gateway')),
})

const CODE_MODE = { refused: 'scripts in the gateway are not supported' } as const

const codeMode = object('Scripts that call several tools.', {
  enabled: defaulted(flag(CODE_MODE, 'Offer it.', { default: false })),
  parallelMaxConcurrency: defaulted(integer(CODE_MODE, 'Calls at the same time.', { minimum: 1, default: 10 })),
  stepLimit: defaulted(integer(CODE_MODE, 'Steps of a script.', { minimum: 1, default: 100000 })),
  toolCallTimeout: defaulted(duration(CODE_MODE, 'Longest wait for a call.', { default: '30s' })),
})

export const virtualMcpConfig = object('Settings of the gateway.', {
  name: Type.Optional(
    text('gateway', 'Name told to clients. Absent: the object’s name.', { min: 1, max: limits.name }),
  ),
  groupRef: Type.Optional(objectName('operator', 'The group; the same as `spec.groupRef.name`.')),
  metadata: Type.Optional(map('Metadata of the gateway.', text(REPLACED.metadata, 'A value.'))),
  passthroughHeaders: Type.Optional(passthroughHeaders('gateway')),
  aggregation: Type.Optional(aggregation),
  operational: Type.Optional(operational),
  audit: Type.Optional(gatewayAudit('gateway')),
  backends: Type.Optional(staticBackends(REPLACED.backends)),
  codeMode: Type.Optional(codeMode),
  cors: Type.Optional(cors('gateway')),
  compositeTools: Type.Optional(workflows('gateway')),
  compositeToolRefs: Type.Optional(
    list(
      'Workflows of their own objects.',
      objectRef('gateway', 'VirtualMCPCompositeToolDefinition', 'A workflow, by name.'),
      { type: { map: ['name'] } },
    ),
  ),
  incomingAuth: Type.Optional(incomingAuth(REPLACED.incomingAuth)),
  outgoingAuth: Type.Optional(outgoingAuth(REPLACED.outgoingAuth)),
  optimizer: Type.Optional(optimizer),
  rateLimiting: Type.Optional(rateLimiting('gateway')),
  sessionStorage: Type.Optional(plainSessionStorage('gateway')),
  telemetry: Type.Optional(telemetry(REPLACED.telemetry)),
})
