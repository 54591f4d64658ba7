import Type, { type Static } from 'typebox'

const claim = (description: string) => Type.Optional(Type.String({ description, minLength: 1, maxLength: 253 }))

/** What callers may do: Cedar policies. */
export const authz = Type.Object(
  {
    policies: Type.Array(Type.String({ minLength: 1 }), {
      description: 'Cedar policies. What none permits is denied.',
      minItems: 1,
    }),
    entitiesJson: Type.Optional(
      Type.String({ description: 'Cedar entities, JSON text of an array.', default: '[]', maxLength: 524_288 }),
    ),
    primaryUpstreamProvider: Type.Optional(
      Type.String({
        description:
          'Provider of authServer: policies judge the ID token of the caller’s login there. Absent: the caller’s token.',
        minLength: 1,
        maxLength: 63,
      }),
    ),
    groupClaimName: claim('Claim that holds the caller’s groups; absent: groups, roles or cognito:groups.'),
    roleClaimName: claim('Claim that holds the caller’s roles, which count as groups.'),
    groupEntityType: Type.Optional(
      Type.String({ description: 'Entity type of a group.', default: 'Group', maxLength: 63 }),
    ),
  },
  { additionalProperties: false, description: 'What callers may do. Absent: everything.' },
)

export type AuthzConfig = Static<typeof authz>
