/** `spec.config` of a VirtualMCPServer: the settings of the gateway itself. */

import { gatewayAudit } from '../audit.ts'
import { passthroughHeaders } from '../headers.ts'
import { limits } from '../limits.ts'
import { objectRef } from '../references.ts'
import { choice, defaulted, duration, flag, integer, list, map, object, objectName, Type, text } from '../schema.ts'
import { aggregation } from './aggregation.ts'
import { catalogGate } from './catalog-gate.ts'
import { cors } from './cors.ts'
import { failureHandling } from './failure-handling.ts'
import { optimizer } from './optimizer.ts'
import { gatewayPinning } from './pinning.ts'
import { rateLimiting } from './rate-limits.ts'
import { plainSessionStorage } from './session-storage.ts'
import { usage } from './usage.ts'
import { incomingAuth, outgoingAuth, staticBackends, telemetry } from './virtual-mcp-native.ts'
import { workflows } from './workflow.ts'

/** Fields that this resource replaces by others, each with the reason for its refusal and the field to set instead. */
const REPLACED = {
  metadata: { refused: 'nothing reads it; use labels and annotations in metadata of this object' },
  backends: { refused: 'backends are members of the group; use an MCPServerEntry with groupRef for each' },
  incomingAuth: { refused: 'use spec.incomingAuth, with an MCPOIDCConfig in oidcConfigRef' },
  outgoingAuth: { refused: 'use spec.outgoingAuth, with MCPExternalAuthConfigs in externalAuthConfigRef' },
  telemetry: { refused: 'use spec.telemetryConfigRef, with an MCPTelemetryConfig' },
} as const

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
  failureHandling: Type.Optional(failureHandling),
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
  catalogGate: Type.Optional(catalogGate),
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
  pinning: Type.Optional(gatewayPinning),
  rateLimiting: Type.Optional(rateLimiting('gateway')),
  sessionStorage: Type.Optional(plainSessionStorage('gateway')),
  telemetry: Type.Optional(telemetry(REPLACED.telemetry)),
  usage: Type.Optional(usage('gateway')),
})
