"""Inserts builds into the database of a Zuul, like its scheduler.

usage: put_builds.py zuul.conf < builds.json

The input is a list of objects: tenant, pipeline, job, uuid, result, end (ISO 8601, UTC), and optionally
final, refs (list of {project, branch, change, patchset, ref, newrev}; the first is that of the build) and data: the data of
zuul_return in the job. Zuul's own code processes its artifacts.
"""

import configparser
import datetime
import json
import sys
import uuid

from zuul.driver.sql import SQLDriver
from zuul.lib.result_data import get_artifacts_from_result_data

USUAL_REF = {"project": "org/images", "branch": "main", "change": None, "patchset": None, "ref": "refs/heads/main",
             "oldrev": None, "newrev": None, "ref_url": "https://git.example.org/org/images"}


def put(db, build):
    end = datetime.datetime.fromisoformat(build["end"])
    start = end - datetime.timedelta(minutes=30)
    buildset = db.createBuildSet(uuid=uuid.uuid4().hex, tenant=build["tenant"], pipeline=build["pipeline"],
                                 event_id=uuid.uuid4().hex, event_timestamp=start, updated=end, result=build["result"])
    refs = [db.getOrCreateRef(**{**USUAL_REF, **ref}) for ref in build.get("refs") or [{}]]
    buildset.refs.extend(refs)
    row = buildset.createBuild(refs[0], uuid=build["uuid"], job_name=build["job"], result=build["result"], start_time=start,
                               end_time=end, voting=True, nodeset="image-builder", final=build.get("final", True), held=False)
    data = build.get("data") or {}
    row.log_url = data.get("zuul", {}).get("log_url")
    for artifact in get_artifacts_from_result_data(data):
        if "metadata" in artifact:
            artifact["metadata"] = json.dumps(artifact["metadata"])
        row.createArtifact(**artifact)


def main():
    config = configparser.ConfigParser(interpolation=None)
    config.read(sys.argv[1])
    connection = SQLDriver().getConnection("database", {"dburi": config["database"]["dburi"]})
    with connection.getSession() as db:
        for build in json.load(sys.stdin):
            put(db, build)


main()
