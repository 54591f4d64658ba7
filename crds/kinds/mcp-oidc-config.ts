import { age, defineKind, type ObjectOf, ready, users } from '../define.ts'
import { oidcIssuer } from '../settings/auth/oidc.ts'
import { limits } from '../settings/limits.ts'
import { blockFor } from '../settings/rules.ts'
import { choice, defaulted, flag, object, Type, text, url } from '../settings/schema.ts'
import { configStatus, workloadKinds } from '../settings/status.ts'

const kubernetesServiceAccount = object('Tokens of ServiceAccounts, issued by the cluster’s API server.', {
  issuer: Type.Optional(url('gateway', 'Issuer. Absent: the one that the API server’s own discovery document names.')),
  jwksUrl: Type.Optional(
    url('gateway', 'URL of the keys; with `useClusterAuth` at the API server. Absent: its usual URL.'),
  ),
  useClusterAuth: defaulted(
    flag('operator', 'Read issuer and keys from the API server, with the cluster’s CA and the pod’s own token.', {
      default: true,
    }),
  ),
  introspectionUrl: Type.Optional(
    url('gateway', 'Introspection endpoint (RFC 7662) for opaque tokens, asked without credentials.'),
  ),
  serviceAccount: Type.Optional(
    text('gateway', 'The only ServiceAccount whose tokens are accepted.', { min: 1, max: limits.name }),
  ),
  namespace: Type.Optional(
    text(
      'gateway',
      'Its namespace. Without `serviceAccount`, all ServiceAccounts of this namespace are accepted. Absent: that of this object.',
      {
        min: 1,
        max: limits.label,
      },
    ),
  ),
})

export const mcpOidcConfig = defineKind({
  kind: 'MCPOIDCConfig',
  plural: 'mcpoidcconfigs',
  shortNames: ['mcpoidc'],
  description: 'How incoming tokens are validated; shared by workloads.',
  role: 'config',
  columns: [{ name: 'Source', type: 'string', jsonPath: '.spec.type' }, users, ready, age],
  spec: object(
    'How incoming tokens are validated.',
    {
      type: choice('gateway', 'Kind of issuer.', ['kubernetesServiceAccount', 'inline']),
      kubernetesServiceAccount: Type.Optional(kubernetesServiceAccount),
      inline: Type.Optional(oidcIssuer),
    },
    { rules: blockFor('type', { kubernetesServiceAccount: 'kubernetesServiceAccount', inline: 'inline' }) },
  ),
  status: configStatus(workloadKinds, {}),
})

export type MCPOIDCConfig = ObjectOf<typeof mcpOidcConfig>
