import { duration, integer, list, object, type Reader, Type, text } from '../schema.ts'

const bucket = (readBy: Reader, description: string) =>
  Type.Optional(
    object(description, {
      maxTokens: integer(readBy, 'Calls that the full bucket holds.', { minimum: 1 }),
      refillPeriod: duration(readBy, 'Time in which an empty bucket fills up.', {
        rules: [{ rule: "duration(self) > duration('0s')", message: 'refillPeriod must be longer than zero' }],
      }),
    }),
  )

const buckets = (readBy: Reader) => ({
  shared: bucket(readBy, 'One bucket for all callers.'),
  perUser: bucket(readBy, 'One bucket for each caller.'),
})

export const rateLimiting = (readBy: Reader) =>
  object(
    'Limits of tool calls.',
    {
      ...buckets(readBy),
      tools: Type.Optional(
        list(
          'Further limits of single tools.',
          object(
            'A tool.',
            { name: text(readBy, 'Name of the tool.', { min: 1, max: 128 }), ...buckets(readBy) },
            {
              rules: [
                { rule: 'has(self.shared) || has(self.perUser)', message: 'a tool needs shared, perUser or both' },
              ],
            },
          ),
          { type: { map: ['name'] } },
        ),
      ),
    },
    {
      rules: [
        {
          rule: 'has(self.shared) || has(self.perUser) || has(self.tools)',
          message: 'set at least one of shared, perUser and tools',
        },
      ],
    },
  )

/** Returns a CEL expression that tells whether the rate limits at `path` count per user anywhere. */
export const countsUsers = (path: string): string =>
  `(has(${path}.perUser) || (has(${path}.tools) && ${path}.tools.exists(tool, has(tool.perUser))))`
