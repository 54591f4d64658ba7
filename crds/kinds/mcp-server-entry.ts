import { age, defineKind, type ObjectOf, phase, ready, reason } from '../define.ts'
import { pinning } from '../settings/gateway/pinning.ts'
import { headerForward } from '../settings/headers.ts'
import { protocolEra } from '../settings/protocol-era.ts'
import { caBundleRef, objectRef } from '../settings/references.ts'
import { choice, defaulted, flag, object, Type, url } from '../settings/schema.ts'
import { oneOf, status } from '../settings/status.ts'

export const mcpServerEntry = defineKind({
  kind: 'MCPServerEntry',
  plural: 'mcpserverentries',
  shortNames: ['mcpentry'],
  description: 'A remote MCP server as a member of a group, without pods of its own.',
  role: 'entry',
  columns: [
    phase,
    { name: 'Transport', type: 'string', jsonPath: '.spec.transport' },
    { name: 'Remote URL', type: 'string', jsonPath: '.spec.remoteUrl' },
    { name: 'Group', type: 'string', jsonPath: '.spec.groupRef.name' },
    ready,
    reason,
    age,
  ],
  spec: object('The remote server.', {
    remoteUrl: url('gateway', 'MCP endpoint of the remote server.'),
    transport: choice('gateway', 'Transport of the remote server.', ['sse', 'streamable-http']),
    protocolEra: protocolEra('gateway'),
    groupRef: objectRef('operator', 'MCPGroup', 'The group that it is a member of.'),
    externalAuthConfigRef: Type.Optional(
      objectRef('gateway', 'MCPExternalAuthConfig', 'How the credential for the server is obtained.'),
    ),
    caBundleRef: Type.Optional(caBundleRef('gateway', 'CA bundle for the server.')),
    headerForward: Type.Optional(headerForward('gateway')),
    pinning: Type.Optional(pinning('gateway')),
    allowPrivateEndpoint: defaulted(flag('gateway', 'The server may be at a private address.', { default: false })),
  }),
  status: status({ phase: Type.Optional(oneOf('Short summary of the conditions.', ['Pending', 'Valid', 'Failed'])) }),
})

export type MCPServerEntry = ObjectOf<typeof mcpServerEntry>
