import { limits } from '../limits.ts'
import { configMapKeyRef } from '../references.ts'
import { blockFor } from '../rules.ts'
import { choice, defaulted, label, list, object, type Reader, Type, text } from '../schema.ts'

export const authzClaims = (readBy: Reader) => ({
  groupClaimName: Type.Optional(
    text(readBy, 'Claim that holds the caller’s groups. Absent: `groups`, `roles` or `cognito:groups`.', {
      min: 1,
      max: limits.name,
    }),
  ),
  roleClaimName: Type.Optional(
    text(readBy, 'Claim that holds the caller’s roles, which count as groups.', { min: 1, max: limits.name }),
  ),
  groupEntityType: Type.Optional(
    text(readBy, 'Cedar entity type of a group; `Group` when left out.', {
      max: limits.label,
      pattern: '^[A-Za-z_][A-Za-z0-9_]*$',
    }),
  ),
})

export const cedarPolicies = (readBy: Reader) =>
  list(
    'Cedar policies. Without one that permits, nothing is permitted.',
    text(readBy, 'One policy, or several.', { min: 1, max: limits.policyText }),
    { min: 1, max: limits.policies },
  )

export const entitiesJson = (readBy: Reader) =>
  text(readBy, 'Cedar entities, a JSON array.', { max: limits.file, default: '[]' })

const policies = (readBy: Reader) => ({
  policies: cedarPolicies(readBy),
  entitiesJson: defaulted(entitiesJson(readBy)),
  primaryUpstreamProvider: Type.Optional(
    label(readBy, 'Upstream provider whose ID token policies read, instead of the incoming token.'),
  ),
})

/** The authorization block of a configuration file, regardless of where the policies come from. */
export const servedAuthz = object('What callers may do. Absent: everything.', {
  ...policies('gateway'),
  ...authzClaims('gateway'),
})

export const authzConfig = (readBy: Reader) =>
  object(
    'Authorization policies (Cedar).',
    {
      type: defaulted(choice(readBy, 'Source of the policies.', ['configMap', 'inline'], { default: 'configMap' })),
      configMap: Type.Optional(
        configMapKeyRef(readBy, 'The ConfigMap that holds the policies.', { key: 'authz.json' }),
      ),
      inline: Type.Optional(object('Policies written here.', policies(readBy))),
      ...authzClaims(readBy),
    },
    { rules: blockFor('type', { configMap: 'configMap', inline: 'inline' }) },
  )
