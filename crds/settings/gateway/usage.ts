import { choice, defaulted, flag, integer, object, type Reader } from '../schema.ts'
import { usageDefaults } from './defaults.ts'

export const usage = (readBy: Reader) =>
  object(
    'Counters of tool calls by day, tool, backend, client and person: for information, not for audits or bills. They are kept in memory, or in Redis where the session storage is Redis. Absent: nothing is counted.',
    {
      enabled: defaulted(flag(readBy, 'Count.', { default: false })),
      people: defaulted(
        choice(
          readBy,
          'How callers are recorded: not at all, by a digest of issuer and subject, or by their subject.',
          ['disabled', 'digest', 'name'],
          { default: usageDefaults.people },
        ),
      ),
      days: defaulted(
        integer(readBy, 'Days that are kept, the current one included.', {
          minimum: 1,
          maximum: 400,
          default: usageDefaults.days,
        }),
      ),
    },
  )
