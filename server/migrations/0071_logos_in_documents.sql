-- Documents show the logo that the seller had when they were issued. A copy that a document shows is never deleted, so that
-- the document can be rendered again with the same bytes.
alter table organization_logos add column in_documents boolean not null default false;
grant update (in_documents) on organization_logos to bursar_api;
