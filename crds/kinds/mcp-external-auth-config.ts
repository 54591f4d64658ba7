import { age, defineKind, type ObjectOf, ready, users } from '../define.ts'
import {
  blockProperties,
  type CredentialDeclaration,
  type CredentialType,
  credentialTypes,
} from '../settings/auth/external-auth.ts'
import { blockFor } from '../settings/rules.ts'
import { choice, object } from '../settings/schema.ts'
import { configStatus, workloadKinds } from '../settings/status.ts'

const blocks = blockProperties('block')
const refusedValues = Object.fromEntries(
  Object.entries<CredentialDeclaration>(credentialTypes).flatMap(([type, { refused }]) =>
    refused === undefined ? [] : [[type, refused]],
  ),
)

export const mcpExternalAuthConfig = defineKind({
  kind: 'MCPExternalAuthConfig',
  plural: 'mcpexternalauthconfigs',
  shortNames: ['mcpextauth'],
  description: 'How a gateway or proxy gets the credential for a backend; shared by workloads.',
  role: 'config',
  columns: [{ name: 'Type', type: 'string', jsonPath: '.spec.type' }, users, ready, age],
  spec: object(
    'How the credential is obtained.',
    {
      type: choice('gateway', 'Strategy.', Object.keys(credentialTypes) as CredentialType[], { refusedValues }),
      ...blocks,
    },
    { rules: blockFor('type', Object.fromEntries(Object.keys(blocks).map((type) => [type, type]))) },
  ),
  status: configStatus([...workloadKinds, 'MCPServerEntry'], {}),
})

export type MCPExternalAuthConfig = ObjectOf<typeof mcpExternalAuthConfig>
