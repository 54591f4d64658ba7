import { age, defineKind, type ObjectOf, ready, users } from '../define.ts'
import { choice, object, raw } from '../settings/schema.ts'
import { configStatus, workloadKinds } from '../settings/status.ts'

export const mcpAuthzConfig = defineKind({
  kind: 'MCPAuthzConfig',
  plural: 'mcpauthzconfigs',
  shortNames: ['mcpauthz'],
  description: 'Authorization policies; shared by workloads.',
  role: 'config',
  columns: [{ name: 'Type', type: 'string', jsonPath: '.spec.type' }, users, ready, age],
  spec: object('Authorization policies.', {
    type: choice('gateway', 'Engine.', ['cedarv1', 'httpv1'], {
      refusedValues: { httpv1: 'authorization by an HTTP service is not supported; use cedarv1' },
    }),
    config: raw('gateway', 'Settings of the engine; of cedarv1: `policies`, `entitiesJson`, claim names.'),
  }),
  status: configStatus(workloadKinds, {}),
})

export type MCPAuthzConfig = ObjectOf<typeof mcpAuthzConfig>
