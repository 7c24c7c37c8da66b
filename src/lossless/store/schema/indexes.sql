-- Indexes of the base tables, created once every column is there.

CREATE UNIQUE INDEX IF NOT EXISTS conversations_active_session_key_idx
    ON conversations (session_key) WHERE session_key IS NOT NULL AND active = 1;
CREATE INDEX IF NOT EXISTS conversations_session_key_active_created_idx
    ON conversations (session_key, active, created_at);
CREATE INDEX IF NOT EXISTS conversations_session_id_active_created_idx
    ON conversations (session_id, active, created_at);
CREATE INDEX IF NOT EXISTS messages_conv_identity_hash_idx
    ON messages (conversation_id, identity_hash);
CREATE UNIQUE INDEX IF NOT EXISTS messages_conv_entry_unique_idx
    ON messages (conversation_id, transcript_entry_id) WHERE transcript_entry_id IS NOT NULL;
CREATE UNIQUE INDEX IF NOT EXISTS messages_stable_event_key_unique
    ON messages (conversation_id, stable_event_key) WHERE stable_event_key IS NOT NULL;
CREATE INDEX IF NOT EXISTS message_parts_type_idx ON message_parts (part_type);
CREATE INDEX IF NOT EXISTS summaries_conv_created_idx ON summaries (conversation_id, created_at);
CREATE INDEX IF NOT EXISTS summaries_conv_depth_kind_idx ON summaries (conversation_id, depth, kind);
CREATE INDEX IF NOT EXISTS summary_messages_message_idx ON summary_messages (message_id);
CREATE INDEX IF NOT EXISTS summary_parents_parent_summary_idx ON summary_parents (parent_summary_id);
CREATE INDEX IF NOT EXISTS large_files_conv_idx ON large_files (conversation_id, created_at);
CREATE INDEX IF NOT EXISTS bootstrap_state_path_idx
    ON conversation_bootstrap_state (session_file_path, updated_at);
CREATE INDEX IF NOT EXISTS compaction_telemetry_state_idx
    ON conversation_compaction_telemetry (cache_state, updated_at);
CREATE INDEX IF NOT EXISTS focus_briefs_conversation_status_idx
    ON focus_briefs (conversation_id, status, created_at);
CREATE INDEX IF NOT EXISTS focus_brief_sources_summary_idx ON focus_brief_sources (summary_id);
