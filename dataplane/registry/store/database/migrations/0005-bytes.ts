import { type Kysely, sql } from 'kysely'
import type { Migration } from 'kysely/migration'

/**
 * Stores the bytes of a version's texts: the length of three texts took a tenth of a page. Versions that an older
 * replica publishes meanwhile count as small.
 */
export const keepBytes: Migration = {
  async up(db: Kysely<unknown>) {
    for (const table of ['entry_version', 'staged_version'])
      await sql`alter table ${sql.table(table)} add column bytes integer not null default 0`.execute(db)
    await sql`
      update entry_version set bytes = coalesce(octet_length(status_message), 0) + coalesce(octet_length(other_meta), 0)
        + coalesce((select octet_length(d.text) from document d where d.id = entry_version.document_id), 0)`.execute(db)
  },
}
