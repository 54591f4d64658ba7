import { age, defineKind, type ObjectOf, ready, users } from '../define.ts'
import { toolOverrides } from '../settings/gateway/aggregation.ts'
import { limits } from '../settings/limits.ts'
import { list, object, Type, text } from '../settings/schema.ts'
import { configStatus, workloadKinds } from '../settings/status.ts'

export const mcpToolConfig = defineKind({
  kind: 'MCPToolConfig',
  plural: 'mcptoolconfigs',
  shortNames: ['mcptc'],
  description: 'Which tools of a server are shown and how; shared by workloads.',
  role: 'config',
  columns: [users, ready, age],
  spec: object('Which tools are shown and how.', {
    toolsFilter: Type.Optional(
      list(
        'Names of the tools that are shown, after overrides. Absent: all.',
        text('gateway', 'A tool name.', { max: 128 }),
        {
          max: limits.tools,
          type: 'set',
        },
      ),
    ),
    toolsOverride: Type.Optional(toolOverrides('gateway')),
  }),
  status: configStatus(workloadKinds, {}),
})

export type MCPToolConfig = ObjectOf<typeof mcpToolConfig>
