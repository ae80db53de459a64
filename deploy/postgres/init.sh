#!/bin/sh
# Run once by the image of PostgreSQL, when its data is created: the serving roles, an owner for migrations and restores, a login
# for the API and the workers, one database. All roles are created here, so that no run-time login may create any.
set -eu
# Passwords are read from the environment, so that no list of processes shows them.
psql --no-psqlrc --set ON_ERROR_STOP=1 --username "${POSTGRES_USER:-postgres}" --dbname postgres <<'SQL'
\getenv owner_password OWNER_PASSWORD
\getenv login_password LOGIN_PASSWORD
create role bursar_api nologin;
create role bursar_worker nologin;
create role bursar_jobs nologin;
create role bursar_processor nologin;
create role bursar_owner login nocreaterole createdb password :'owner_password';
create role bursar_login login password :'login_password';
grant bursar_api, bursar_worker, bursar_jobs, bursar_processor to bursar_owner;
grant bursar_api, bursar_worker, bursar_jobs, bursar_processor to bursar_login;
create database bursar owner bursar_owner;
revoke all on database bursar from public;
grant connect on database bursar to bursar_login;
SQL
