import { age, defineKind, type ObjectOf, ready, reason, users } from '../define.ts'
import { workflow } from '../settings/gateway/workflow.ts'
import { list, Type } from '../settings/schema.ts'
import { configStatus, oneOf, statusText } from '../settings/status.ts'

export const virtualMcpCompositeToolDefinition = defineKind({
  kind: 'VirtualMCPCompositeToolDefinition',
  plural: 'virtualmcpcompositetooldefinitions',
  shortNames: ['vmcpctd'],
  description: 'A workflow over several tools, offered as one tool; shared by VirtualMCPServers.',
  role: 'config',
  columns: [
    { name: 'Workflow', type: 'string', jsonPath: '.spec.name' },
    { name: 'Status', type: 'string', jsonPath: '.status.validationStatus' },
    users,
    ready,
    reason,
    age,
  ],
  spec: workflow('gateway'),
  status: configStatus(['VirtualMCPServer'], {
    validationStatus: Type.Optional(oneOf('Whether the workflow is valid.', ['Unknown', 'Valid', 'Invalid'])),
    validationErrors: Type.Optional(list('Problems of the workflow.', statusText('An error.', { max: 4096 }))),
  }),
})

export type VirtualMCPCompositeToolDefinition = ObjectOf<typeof virtualMcpCompositeToolDefinition>
