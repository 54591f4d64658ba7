import { age, defineKind, type ObjectOf, ready, reason } from '../define.ts'
import { pinSpec } from '../settings/gateway/pinning.ts'
import { configStatus } from '../settings/status.ts'

export const mcpPin = defineKind({
  kind: 'MCPPin',
  plural: 'mcppins',
  shortNames: ['mcppin'],
  description: 'Definitions of a server that were approved, by their digests. Several of one server add up.',
  role: 'config',
  columns: [
    { name: 'Kind', type: 'string', jsonPath: '.spec.targetRef.kind' },
    { name: 'Target', type: 'string', jsonPath: '.spec.targetRef.name' },
    {
      name: 'Users',
      type: 'integer',
      jsonPath: '.status.referencingWorkloadCount',
      description: 'Number of objects that hold to it.',
    },
    ready,
    reason,
    age,
  ],
  spec: pinSpec,
  status: configStatus(['MCPServer', 'MCPRemoteProxy', 'MCPServerEntry', 'VirtualMCPServer'], {}),
})

export type MCPPin = ObjectOf<typeof mcpPin>
