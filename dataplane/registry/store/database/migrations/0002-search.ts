import { type Kysely, sql } from 'kysely'
import type { Migration } from 'kysely/migration'
import { isPostgres } from '../../../../storage/sql.ts'

/** The size of the list of new rows, which each search reads. Its default, 4 MiB, cost 17 ms a search. */
const PENDING_KIB = 256

/**
 * Finds versions by any part of their search text. SQLite: trigrams without positions (`detail=none`) and text, a third
 * of the size; matches are checked against the text. Two line breaks behind the text let terms of one or two characters
 * be found by the beginnings of trigrams. Triggers update it.
 */
export const createSearch: Migration = {
  async up(db: Kysely<unknown>) {
    if (isPostgres(db)) {
      await sql`create extension if not exists pg_trgm`.execute(db)
      await sql`
        create index entry_version_search on entry_version using gin (search_text gin_trgm_ops)
        with (gin_pending_list_limit = ${sql.lit(PENDING_KIB)})`.execute(db)
      return
    }
    await sql`
      create virtual table version_search using fts5(search_text, content='', contentless_delete=1,
        detail=none, tokenize='trigram case_sensitive 1')`.execute(db)
    await sql`create virtual table version_search_term using fts5vocab(version_search, row)`.execute(db)
    const text = sql.raw(`new.search_text || char(10, 10)`)
    await sql`
      create trigger version_search_insert after insert on entry_version begin
        insert into version_search (rowid, search_text) values (new.id, ${text});
      end`.execute(db)
    await sql`
      create trigger version_search_delete after delete on entry_version begin
        delete from version_search where rowid = old.id;
      end`.execute(db)
    await sql`
      create trigger version_search_update after update of search_text on entry_version
      when new.search_text <> old.search_text begin
        update version_search set search_text = ${text} where rowid = new.id;
      end`.execute(db)
  },
}
