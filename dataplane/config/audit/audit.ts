import Type, { type Static } from 'typebox'

/** The block `audit` of a gateway, a proxy and a registry. */

const strict = { additionalProperties: false }
const types = (description: string) =>
  Type.Optional(Type.Array(Type.String({ minLength: 1, maxLength: 253 }), { description, maxItems: 1024 }))

export const DEFAULT_DATA_BYTES = 1024
export const DEFAULT_DELEGATION_DEPTH = 10

const common = {
  component: Type.Optional(
    Type.String({ description: 'Component of each event. Absent: the workload’s name.', maxLength: 253 }),
  ),
  enabled: Type.Optional(Type.Boolean({ description: 'Writes an audit log.', default: false })),
  logFile: Type.Optional(
    Type.String({ description: 'File that is appended to. Absent: standard output.', minLength: 1 }),
  ),
  eventTypes: types('Events that are written. Absent: all.'),
  excludeEventTypes: types('Events that are not written, even if `eventTypes` names them.'),
  includeRequestData: Type.Optional(Type.Boolean({ description: 'Writes what was sent.', default: false })),
  includeResponseData: Type.Optional(Type.Boolean({ description: 'Writes what was answered.', default: false })),
  maxDataSize: Type.Optional(
    Type.Integer({
      description: 'Most bytes of a body that are written.',
      minimum: 0,
      maximum: 1024 * 1024,
      default: DEFAULT_DATA_BYTES,
    }),
  ),
  trustedProxies: Type.Optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 64 }), {
      description: 'Addresses and networks (CIDR) of proxies whose X-Forwarded-For is believed.',
      maxItems: 1024,
    }),
  ),
}

export const auditSchema = Type.Object(common, strict)

export const gatewayAuditSchema = Type.Object(
  {
    ...common,
    detectApplicationErrors: Type.Optional(
      Type.Boolean({ description: 'A tool’s error result is the outcome `application_error`.', default: true }),
    ),
    maxDelegationDepth: Type.Optional(
      Type.Integer({
        description: 'Links of a delegation chain that are written.',
        minimum: 1,
        default: DEFAULT_DELEGATION_DEPTH,
      }),
    ),
  },
  strict,
)

export type AuditSettings = Static<typeof gatewayAuditSchema>
