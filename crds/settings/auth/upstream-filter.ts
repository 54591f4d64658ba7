import { label, list, object, Type, text } from '../schema.ts'

const providers = (description: string, min?: number) =>
  list(description, label('gateway', 'The name of one of `upstreamProviders`.'), {
    ...(min !== undefined && { min }),
    max: 16,
    type: 'set',
  })

/** The providers that a login visits after the first one, by what the first one says of the user. */
export const upstreamFilter = object(
  'Which providers a login visits after the first, by a claim from the first. The first one and the one that identifies users are always visited. The providers of all matching rules are visited.',
  {
    claim: text('gateway', 'Claim of the first provider’s ID token that lists the user’s groups.', {
      min: 1,
      max: 256,
    }),
    rules: list(
      'Groups and their providers.',
      object('Users in any of the groups visit these providers.', {
        groups: list('Groups, compared exactly.', text('gateway', 'A group.', { min: 1, max: 256 }), {
          min: 1,
          max: 100,
          type: 'set',
        }),
        upstreamProviders: providers('Providers that these users visit.', 1),
      }),
      { max: 50 },
    ),
    defaultUpstreams: Type.Optional(
      providers('Providers of users whose claim is missing or is not a list. Absent: none but the first.'),
    ),
  },
)
