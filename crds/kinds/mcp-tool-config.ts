import { age, defineKind, type ObjectOf, ready, users } from '../define.ts'
import { toolNames, toolOverrides } from '../settings/gateway/aggregation.ts'
import { object, Type } from '../settings/schema.ts'
import { configStatus, workloadKinds } from '../settings/status.ts'

export const mcpToolConfig = defineKind({
  kind: 'MCPToolConfig',
  plural: 'mcptoolconfigs',
  shortNames: ['mcptc'],
  description: 'Which tools of a server are shown and how; shared by workloads.',
  role: 'config',
  columns: [users, ready, age],
  spec: object('Which tools are shown and how.', {
    toolsFilter: Type.Optional(toolNames('gateway')),
    toolsOverride: Type.Optional(toolOverrides('gateway')),
  }),
  status: configStatus(workloadKinds, {}),
})

export type MCPToolConfig = ObjectOf<typeof mcpToolConfig>
