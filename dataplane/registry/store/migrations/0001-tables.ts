import { type Kysely, sql } from 'kysely'
import type { Migration } from 'kysely/migration'

/**
 * Text columns compare byte by byte (SQLite's default), which `precedence` and the order of names count on.
 *
 * A listing is its own index (`without rowid`): one range of it is one page.
 */
export const createTables: Migration = {
  async up(db: Kysely<unknown>) {
    await db.schema
      .createTable('source')
      .addColumn('id', 'integer', (column) => column.primaryKey())
      .addColumn('name', 'text', (column) => column.notNull().unique())
      .addColumn('settings_hash', 'text')
      .addColumn('content_hash', 'text')
      .addColumn('servers', 'integer', (column) => column.notNull().defaultTo(0))
      .addColumn('skills', 'integer', (column) => column.notNull().defaultTo(0))
      .addColumn('problems', 'text', (column) => column.notNull().defaultTo('[]'))
      .execute()

    await db.schema
      .createTable('registry')
      .addColumn('id', 'integer', (column) => column.primaryKey())
      .addColumn('name', 'text', (column) => column.notNull().unique())
      .addColumn('revision', 'text', (column) => column.notNull())
      .execute()

    await db.schema
      .createTable('registry_source')
      .addColumn('registry_id', 'integer', (column) => column.notNull().references('registry.id').onDelete('cascade'))
      .addColumn('source_id', 'integer', (column) => column.notNull().references('source.id').onDelete('cascade'))
      .addColumn('position', 'integer', (column) => column.notNull())
      .addPrimaryKeyConstraint('registry_source_key', ['registry_id', 'source_id'])
      .execute()
    await index(db, 'registry_source', ['source_id'])

    await db.schema
      .createTable('claims_set')
      .addColumn('id', 'integer', (column) => column.primaryKey())
      .addColumn('claims', 'text', (column) => column.notNull().unique())
      .execute()
    await sql`insert into claims_set (id, claims) values (0, '{}')`.execute(db)

    await db.schema
      .createTable('entry')
      .addColumn('id', 'integer', (column) => column.primaryKey())
      .addColumn('source_id', 'integer', (column) => column.notNull().references('source.id').onDelete('cascade'))
      .addColumn('type', 'text', (column) => column.notNull())
      .addColumn('name', 'text', (column) => column.notNull())
      .addColumn('claims_set', 'integer', (column) => column.notNull().defaultTo(0).references('claims_set.id'))
      .addColumn('living', 'integer', (column) => column.notNull().defaultTo(1))
      .addColumn('latest_id', 'integer')
      .addUniqueConstraint('entry_key', ['source_id', 'type', 'name'])
      .execute()
    await index(db, 'entry', ['claims_set'])

    await db.schema
      .createTable('entry_version')
      .addColumn('id', 'integer', (column) => column.primaryKey())
      .addColumn('entry_id', 'integer', (column) => column.notNull().references('entry.id').onDelete('cascade'))
      .addColumn('version', 'text', (column) => column.notNull())
      .addColumn('precedence', 'text', (column) => column.notNull())
      .addColumn('status', 'text', (column) => column.notNull())
      .addColumn('status_message', 'text')
      .addColumn('status_changed_at', 'text', (column) => column.notNull())
      .addColumn('published_at', 'text', (column) => column.notNull())
      .addColumn('updated_at', 'text', (column) => column.notNull())
      .addColumn('gone_at', 'text')
      .addColumn('title', 'text')
      .addColumn('description', 'text')
      .addColumn('search_text', 'text', (column) => column.notNull())
      .addColumn('content_hash', 'text', (column) => column.notNull())
      .addColumn('other_meta', 'text')
      .addColumn('document', 'text', (column) => column.notNull())
      // A precedence ends in its version: one key for both.
      .addUniqueConstraint('entry_version_key', ['entry_id', 'precedence'])
      .execute()

    await db.schema
      .createTable('listing')
      .addColumn('registry_id', 'integer', (column) => column.notNull().references('registry.id').onDelete('cascade'))
      .addColumn('type', 'text', (column) => column.notNull())
      .addColumn('name', 'text', (column) => column.notNull())
      .addColumn('rank', 'integer', (column) => column.notNull())
      .addColumn('entry_id', 'integer', (column) => column.notNull().references('entry.id').onDelete('cascade'))
      .addColumn('claims_set', 'integer', (column) => column.notNull().references('claims_set.id'))
      .addPrimaryKeyConstraint('listing_key', ['registry_id', 'type', 'name', 'rank'])
      .modifyEnd(sql`without rowid`)
      .execute()
    await index(db, 'listing', ['entry_id'])
    await index(db, 'listing', ['claims_set'])
  },
}

async function index(db: Kysely<unknown>, table: string, columns: string[]): Promise<void> {
  await db.schema
    .createIndex(`${table}_by_${columns.join('_')}`)
    .on(table)
    .columns(columns)
    .execute()
}
