import { AUDIT_DATA_BYTES, AUDIT_DELEGATION_DEPTH } from './gateway/defaults.ts'
import { limits } from './limits.ts'
import { defaulted, flag, integer, list, object, type Reader, Type, text } from './schema.ts'

const eventTypes = (readBy: Reader, description: string) =>
  Type.Optional(list(description, text(readBy, 'An event type.', { min: 1, max: limits.name })))

/** The audit log: one JSON line per event. */
export const audit = (readBy: Reader) =>
  object('The audit log.', {
    enabled: defaulted(flag(readBy, 'Write an audit log.', { default: false })),
    logFile: Type.Optional(text(readBy, 'File that is written. Absent: standard output.', { min: 1 })),
    eventTypes: eventTypes(readBy, 'Event types that are written. Absent: all.'),
    excludeEventTypes: eventTypes(readBy, 'Event types that are not written, even if listed in `eventTypes`.'),
    includeRequestData: defaulted(flag(readBy, 'Write request bodies too.', { default: false })),
    includeResponseData: defaulted(flag(readBy, 'Write response bodies too.', { default: false })),
    maxDataSize: defaulted(
      integer(readBy, 'Bytes of a body that are written.', { minimum: 0, maximum: 1048576, default: AUDIT_DATA_BYTES }),
    ),
    trustedProxies: Type.Optional(
      list(
        'Addresses or networks (CIDR) whose X-Forwarded-For is trusted.',
        text(readBy, 'An address or a network.', { min: 1, max: 64 }),
        { max: 1024 },
      ),
    ),
  })

/** The fields of `config.audit` of a VirtualMCPServer: the audit log and what only a gateway has. */
export const gatewayAudit = (readBy: Reader) =>
  object('The audit log.', {
    ...audit(readBy).properties,
    component: Type.Optional(
      text(readBy, 'Component name in each event. Absent: the workload’s name.', { max: limits.name }),
    ),
    detectApplicationErrors: defaulted(
      flag(readBy, 'Record a tool’s error result as an application error.', { default: true }),
    ),
    maxDelegationDepth: defaulted(
      integer(readBy, 'Links of a delegation chain that are recorded.', {
        minimum: 1,
        default: AUDIT_DELEGATION_DEPTH,
      }),
    ),
  })
